"""The instance row that a run works on, and telling its followers."""

from __future__ import annotations

from typing import Any

from django.db import connections

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.states import TaskState, VmState
from conductor.journal.models import LockWait, WorkflowRun
from conductor.sql.dialect import NOW, Unless
from conductor.sql.rows import Rows
from conductor.transactions import database_now
from conductor.workflows.flow import Work

ROWS = Rows(Instance, "uuid")


def read(work: Work) -> Instance:
    """The instance of a cell's run."""
    write(work.alias, work.run, work.changes)
    return ROWS.get(connections[work.alias], work.run.instance_uuid)


def update(work: Work, **values: Any) -> None:
    """Change the instance and tell its followers; inside a fenced transaction.

    What interrupts this run stays visible: `task_state` is left alone while a delete or another action waits for it.
    """
    if "task_state" in values:
        task_state = values.pop("task_state")
        if not (work.run.is_cancel_requested and is_awaited(work)):
            said = task_state and str(task_state)
            values["task_state"] = Unless("task_state", TaskState.DELETING.value, said)
    changes = {} if work.changes is None else work.changes
    changes |= {"updated_at": NOW, **values}
    if work.changes is None:
        write(work.alias, work.run, changes)


def write(alias: str, run: WorkflowRun, changes: dict[str, Any] | None) -> None:
    """Change the instance of a run as was said by `update`, if anything was, and forget that it was said."""
    if not changes:
        return
    ROWS.update(connections[alias], run.instance_uuid, **changes)
    changes.clear()
    _tell(alias, run, "instance.updated")


def is_awaited(work: Work) -> bool:
    """Whether another run waits for the instance: it has put its own task state there when it was accepted."""
    waiting = LockWait.objects.using(work.alias).filter(resource=f"instance:{work.instance_uuid}")
    return waiting.exclude(run=work.run.pk).exists()


def bury(work: Work) -> None:
    """The instance is no more: the row stays for those who list what was deleted; inside a fenced transaction."""
    write(work.alias, work.run, work.changes)
    now = database_now()
    Instance.objects.using(work.alias).filter(uuid=work.instance_uuid).update(
        vm_state=VmState.DELETED, task_state=None, terminated_at=now, deleted_at=now, updated_at=now
    )
    tell(work, "instance.deleted")


def tell(work: Work, kind: str) -> None:
    """Append an event about the run's instance."""
    _tell(work.alias, work.run, kind)


def _tell(alias: str, run: WorkflowRun, kind: str) -> None:
    events.append(alias, events.about_instance_of(run), kind)
