"""The action is done: nothing is under way on the server any more."""

from __future__ import annotations

from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class FreeInstance(Step):
    title = "Free server"
    lane = "Cell conductor"
    # No revert: it is the last step, and what it wrote says only that the action is over.

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, task_state=None)
