"""Have a volume's data again as its snapshot has them."""

from __future__ import annotations

from conductor.volume import store
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import volume_data


class CopyFromSnapshot(Step):
    """The old data are there until the copy is whole; there is no way back after that, and none is needed."""

    title = "Copy data back"
    retry = Retry(tries=3)

    def execute(self, work: Work) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        store.go_back(volume.uuid, volume.size_gb, work.inputs["snapshot_id"])
        return {}
