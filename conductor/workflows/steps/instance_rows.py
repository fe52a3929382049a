"""The instance row that a run works on, and events about its changes."""

from __future__ import annotations

from typing import Any

from django.db import connections

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.states import TaskState, VmState
from conductor.db.dialect import NOW, UnlessConstant
from conductor.db.rows import Rows
from conductor.db.transactions import database_now
from conductor.journal.models import LockWait, WorkflowRun
from conductor.workflows.flow import StepContext

ROWS = Rows(Instance, "uuid")


def read(work: StepContext) -> Instance:
    """Return the instance of a cell's run."""
    write(work.alias, work.run, work.changes)
    return ROWS.get(connections[work.alias], work.run.instance_uuid)


def update(work: StepContext, **values: Any) -> None:
    """Change the instance and notify its subscribers. Call it inside a fenced transaction.

    `task_state` is not changed while a delete or another interrupting action waits, so that the waiting action's stays
    visible.
    """
    if "task_state" in values:
        task_state = values.pop("task_state")
        if not (work.run.is_cancel_requested and is_awaited(work)):
            reported = task_state and str(task_state)
            values["task_state"] = UnlessConstant("task_state", TaskState.DELETING.value, reported)
    changes = {} if work.changes is None else work.changes
    changes |= {"updated_at": NOW, **values}
    if work.changes is None:
        write(work.alias, work.run, changes)


def write(alias: str, run: WorkflowRun, changes: dict[str, Any] | None) -> None:
    """Write the changes of an instance that `update` has collected, if any, and clear them."""
    if not changes:
        return
    ROWS.update(connections[alias], run.instance_uuid, **changes)
    changes.clear()
    _emit(alias, run, "instance.updated")


def is_awaited(work: StepContext) -> bool:
    """Whether another run waits for the instance. It has set its own task state when it was accepted."""
    waiting = LockWait.objects.using(work.alias).filter(resource=f"instance:{work.instance_uuid}")
    return waiting.exclude(run=work.run.pk).exists()


def mark_deleted(work: StepContext) -> None:
    """Mark the instance as deleted. The row stays for lists of deleted ones. Call it inside a fenced transaction."""
    write(work.alias, work.run, work.changes)
    now = database_now()
    Instance.objects.using(work.alias).filter(uuid=work.instance_uuid).update(
        vm_state=VmState.DELETED, task_state=None, terminated_at=now, deleted_at=now, updated_at=now
    )
    emit(work, "instance.deleted")


def emit(work: StepContext, kind: str) -> None:
    """Append an event about the run's instance."""
    _emit(work.alias, work.run, kind)


def _emit(alias: str, run: WorkflowRun, kind: str) -> None:
    events.append(alias, events.about_instance_of(run), kind)
