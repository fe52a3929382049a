"""The action has failed or was cancelled, and is undone: the server is free again, and its owner can read why."""

from __future__ import annotations

from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import faults, instance_rows


class NoteFailure(Step):
    """The state of the guest is what it was before: only what was under way goes."""

    title = "Note failure"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        error = work.run.error or {}
        if error.get("class") != "Cancelled":
            faults.keep_first_cause(work)
        instance_rows.update(work, task_state=None)
