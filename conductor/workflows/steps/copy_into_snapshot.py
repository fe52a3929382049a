"""Keep a volume's data as they are now."""

from __future__ import annotations

from conductor.volume import store
from conductor.volume.models import Snapshot
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import volume_data


class CopyIntoSnapshot(Step):
    """A copy that was finished before is not made again: what the volume has become since is not what was asked for."""

    title = "Copy data"

    def execute(self, work: Work) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        row = Snapshot.objects.filter(uuid=work.inputs["snapshot_id"]).first()
        if row is not None:
            store.take_snapshot(row.uuid, volume.uuid, max(row.size_gb, volume.size_gb))
        return {}

    def revert(self, work: Work, result: Result) -> None:
        store.remove_snapshot(work.inputs["snapshot_id"])
