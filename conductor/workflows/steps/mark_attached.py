"""The guest has the volume: say so."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows


class MarkAttached(Step):
    """No revert: the reservation's gives the volume back, whether it is in use or not yet."""

    title = "Mark as attached"
    lane = "Cell conductor"
    retry = Retry(tries=5)

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            operations.complete(work.inputs["attachment_id"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work)
