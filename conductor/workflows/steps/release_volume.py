"""The guest has let the volume go: others may have it."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import devices, instance_rows


class ReleaseVolume(Step):
    """No revert, and no cancel from here on: somebody else may have the volume the next moment."""

    title = "Release volume"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            operations.release(work.inputs["attachment_id"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        devices.rows(work).delete()
        instance_rows.update(work)
