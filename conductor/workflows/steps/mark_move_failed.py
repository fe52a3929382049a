"""A move has ended without moving anything: the instance is as it was, and says why."""

from __future__ import annotations

from conductor.core.errors import InstanceMoved
from conductor.core.states import MigrationStatus, VmState
from conductor.journal.models import WorkflowRun
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import faults, instance_rows, move_rows


class MarkMoveFailed(Step):
    """Keeps the state that the instance had. What could not be given back is an error that somebody must look at.

    `status` is what the migration ends with; `vm_state` is given where a failure itself is an error of the instance.
    """

    title = "Mark as failed"
    lane = "Cell conductor"

    def __init__(self, status: MigrationStatus, vm_state: VmState | None = None) -> None:
        self.status = status
        self.vm_state = vm_state

    def apply(self, work: Work, result: Result) -> None:
        error = work.run.error or {}
        faults.keep_first_cause(work)
        state = VmState.ERROR if work.run.leftovers else self.vm_state
        if error.get("class") == InstanceMoved.__name__:  # nothing was begun
            state = None
        instance_rows.update(work, task_state=None, **({"vm_state": state} if state else {}))
        is_aborted = error.get("class") == "MigrationAborted"
        move_rows.update(work, status=ended_as(work.run, MigrationStatus.CANCELLED if is_aborted else self.status))


def ended_as(run: WorkflowRun, status: MigrationStatus) -> MigrationStatus:
    """What a move ends with that is over with `status`: one that left something behind is an error, never clean."""
    return MigrationStatus.ERROR if run.leftovers else status
