"""The build has failed and is undone: say so, with its first cause."""

from __future__ import annotations

from conductor.cell_db.models import InstanceFault
from conductor.core.states import TaskState, VmState
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class MarkFailed(Step):
    title = "Mark as failed"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        if instance_rows.read(work).task_state == TaskState.DELETING:
            return  # the delete that cancelled the build goes on with it
        error = work.run.error or {}
        left = f" Not given back: {'; '.join(work.run.leftovers)}." if work.run.leftovers else ""
        InstanceFault.objects.using(work.alias).create(
            instance_uuid=work.instance_uuid,
            message=f"{error.get('message', '')}{left}"[:255],
            details=f"{error.get('class')} at step {error.get('step')}, attempt {error.get('attempt')}",
            created_at=database_now(),
        )
        instance_rows.update(work, vm_state=VmState.ERROR, task_state=None)
