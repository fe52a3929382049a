"""Give a new volume the data that it is made of."""

from __future__ import annotations

from conductor.volume import store
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import volume_data


class CopyIntoVolume(Step):
    """A copy that was finished before is not made again; one that was cut short begins anew."""

    title = "Copy data"

    def execute(self, work: Work) -> Result:
        volume_data.fill(work.context, volume_data.existing(work.inputs["volume_id"]), work.inputs["image"])
        return {}

    def revert(self, work: Work, result: Result) -> None:
        store.remove(work.inputs["volume_id"])
