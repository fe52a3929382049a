"""The guest runs at its destination, and nothing of it is left elsewhere: say so."""

from __future__ import annotations

from conductor.core.states import MigrationStatus
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MarkMoved(Step):
    title = "Mark as moved"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, task_state=None)
        move_rows.update(work, status=MigrationStatus.COMPLETED)
