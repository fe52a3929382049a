"""Opens delete runs in the instance's cell: for users, for schedules, and for deletes that waited for a cell."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict
from conductor.core.states import LIVE_RUN_STATES, RunState, TaskState
from conductor.db.transactions import database_now, one_at_a_time
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox

FLOW = "delete_instance"
UNFINISHED = LIVE_RUN_STATES | {RunState.NEEDS_OPERATOR}


def open_delete(
    alias: str, context: RequestContext, instance_uuid: UUID | str, *, parent_uuid: UUID | str | None = None
) -> bool:
    """Cancel the instance's active run and queue its delete behind it. Called inside `write_tx(alias)`.

    A delete that runs already stays the only one.

    Returns:
        False when the cell has no such instance (any more).

    Raises:
        Conflict: the instance is locked against the caller.
    """
    one_at_a_time(alias, f"delete:{instance_uuid}")
    row = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if row is None:
        return False
    if row.is_locked and not context.is_admin:
        raise Conflict(f"Instance {instance_uuid} is locked")
    unfinished = outbox.hold(alias, instance_uuid=row.uuid, state__in=UNFINISHED)
    if any(run.flow == FLOW for run in unfinished):
        return True
    for run in unfinished:
        if not run.is_cancel_requested:
            outbox.request_cancel(alias, run, "the server is being deleted")
    Instance.objects.using(alias).filter(pk=row.pk).update(task_state=TaskState.DELETING, updated_at=database_now())
    run = _open(alias, replace(context, project_id=row.project_id), row, parent_uuid)
    events.append(alias, events.about_instance(row.uuid, row.project_id, run.uuid), "instance.updated")
    return True


def _open(alias: str, context: RequestContext, row: Instance, parent_uuid: UUID | str | None) -> WorkflowRun:
    wanted = outbox.NewRun(
        flow=FLOW,
        action="delete",
        context=context,
        resources=[f"instance:{row.uuid}"],
        instance_uuid=row.uuid,
        instance_name=row.name,
        parent_uuid=parent_uuid,
        is_cancellable=False,
    )
    return outbox.open_run(alias, wanted, may_wait=True)
