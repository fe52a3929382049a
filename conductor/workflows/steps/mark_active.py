"""The guest runs: say so."""

from __future__ import annotations

from conductor.core.states import VmState
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class MarkActive(Step):
    title = "Activate"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, vm_state=VmState.ACTIVE, task_state=None, launched_at=database_now())
