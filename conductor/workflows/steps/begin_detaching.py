"""Show that the volume is about to leave."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import Result, Step, Work


class BeginDetaching(Step):
    title = "Begin detaching"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            operations.begin_detaching(work.inputs["attachment_id"])
        return {}

    def revert(self, work: Work, result: Result) -> None:
        with work.fenced("default"):
            operations.complete(work.inputs["attachment_id"])
