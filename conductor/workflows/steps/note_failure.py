"""The action has failed or was cancelled, and is undone: the server is free again, and its owner can read why."""

from __future__ import annotations

from conductor.cell_db.models import InstanceFault
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class NoteFailure(Step):
    """The state of the guest is what it was before: only what was under way goes."""

    title = "Note failure"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        error = work.run.error or {}
        if error.get("class") != "Cancelled":
            left = f" Not given back: {'; '.join(work.run.leftovers)}." if work.run.leftovers else ""
            InstanceFault.objects.using(work.alias).create(
                instance_uuid=work.instance_uuid,
                message=f"{error.get('message', '')}{left}"[:255],
                details=f"{error.get('class')} at step {error.get('step')}, attempt {error.get('attempt')}",
                created_at=database_now(),
            )
        instance_rows.update(work, task_state=None)
