"""The build has failed and is undone: say so, with its first cause."""

from __future__ import annotations

from conductor.core.states import TaskState, VmState
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import faults, instance_rows


class MarkFailed(Step):
    title = "Mark as failed"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        if instance_rows.read(work).task_state == TaskState.DELETING:
            return  # the delete that cancelled the build goes on with it
        faults.keep_first_cause(work)
        instance_rows.update(work, vm_state=VmState.ERROR, task_state=None)
