"""Ending a run by force: what it may leave behind is listed, its locks are freed, and its server says so."""

from __future__ import annotations

from typing import Any

from conductor import events
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import API_ALIAS
from conductor.core.interventions import OPEN_STEP_STATES, Facts
from conductor.core.states import RunState, StepState, VmState
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.transactions import database_now


def end(alias: str, run: WorkflowRun, facts: Facts, reason: str) -> None:
    """End `run` here and now; inside the fenced transaction of the order."""
    left = leftovers(run, facts)
    error = run.error or {"class": "ForcedToEnd", "message": reason}
    state = RunState.FAILED_NOT_CLEAN if left else RunState.FAILED_UNDONE
    values: dict[str, Any] = {"state": state, "error": error, "leftovers": left, "orders": None, "waits_for": None}
    WorkflowRun.objects.using(alias).filter(pk=run.pk).update(**values, finished_at=database_now())
    _close_open_steps(alias, run, reason)
    OutboxMessage.objects.using(alias).filter(run_uuid=run.uuid, is_owed=False).delete()
    if alias != API_ALIAS and run.instance_uuid is not None:
        _show_on_instance(alias, run, reason, left)
    events.append(alias, events.about_run(run), "run.ended", {"state": state, "error": error})
    outbox.close_run(alias, run)


def leftovers(run: WorkflowRun, facts: Facts) -> list[str]:
    """What the run knows that it may leave behind: what was not undone, and the step that was under way."""
    left = list(run.leftovers)
    for index in facts.to_undo:
        title = run.plan[index]["title"]
        if not any(line.startswith(f"{title}:") for line in left):
            left.append(f"{title}: done, and not undone")
    is_open = facts.step_state in (*OPEN_STEP_STATES, StepState.FAILED, StepState.UNDO_FAILED)
    if is_open and facts.direction != "end" and not any(line.startswith(f"{facts.step_title}:") for line in left):
        where = f" on {facts.step_host}" if facts.step_host else ""
        left.append(f"{facts.step_title}: may have done a part{where}")
    return left


def _close_open_steps(alias: str, run: WorkflowRun, reason: str) -> None:
    error = {"class": "ForcedToEnd", "message": reason}
    open_steps = StepRecord.objects.using(alias).filter(run=run, state__in=OPEN_STEP_STATES)
    open_steps.update(state=StepState.CANCELLED, error=error, finished_at=database_now())


def _show_on_instance(alias: str, run: WorkflowRun, reason: str, left: list[str]) -> None:
    """The server is in error, with nothing under way: no task outlives its workflow."""
    assert run.instance_uuid is not None
    changed = (
        Instance.objects.using(alias)
        .filter(uuid=run.instance_uuid, deleted_at__isnull=True)
        .update(vm_state=VmState.ERROR, task_state=None, updated_at=database_now())
    )
    if not changed:
        return
    InstanceFault.objects.using(alias).create(
        instance_uuid=run.instance_uuid,
        message=f"{run.action} was forced to its end: {reason}"[:255],
        details="; ".join(left),
        created_at=database_now(),
    )
    events.append(alias, events.about_instance(run.instance_uuid, run.project_id, run.uuid), "instance.updated")
