"""Immediate actions, recorded as a finished workflow run with one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor import events
from conductor.cell_db.models import Instance
from conductor.cells.lookup import queue_of
from conductor.core.context import RequestContext
from conductor.core.states import RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.audit import audit

# This flow is not in the catalog, as such a run is never executed.
FLOW = "at_once"


@dataclass(frozen=True, kw_only=True)
class InstantAction:
    """An immediate action: the Compute API's names of the action and its event, and a title.

    `details` are for the audit log.
    """

    action: str
    event: str
    title: str
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def record(alias: str, context: RequestContext, instance: Instance, action: InstantAction) -> WorkflowRun:
    """Record an action of this transaction on an instance; inside `write_tx(alias)`."""
    now = database_now()
    run = WorkflowRun.objects.using(alias).create(
        flow=FLOW,
        flow_version=1,
        action=action.action,
        state=RunState.DONE,
        queue=queue_of(alias),
        instance_uuid=instance.uuid,
        instance_name=instance.name,
        project_id=instance.project_id,
        user_id=context.user_id,
        user_name=context.user_name,
        request_id=context.request_id,
        context=context.to_json(),
        inputs={"reason": action.reason} if action.reason else {},
        plan=[{"name": action.action, "title": action.title, "lane": "Conductor", "event": action.event}],
        position=1,
        wake_at=now,
        created_at=now,
        started_at=now,
        finished_at=now,
    )
    StepRecord.objects.using(alias).create(
        run=run,
        index=0,
        name=action.action,
        state=StepState.DONE,
        step_key=f"{run.uuid}:do:0:1:1",
        fencing_token=0,
        result={},
        started_at=now,
        finished_at=now,
    )
    for kind in ("run.queued", "run.started", "step.started", "step.done"):
        events.append(alias, events.about_run(run), kind, {"step": action.action} if kind.startswith("step") else {})
    events.append(alias, events.about_run(run), "run.ended", {"state": RunState.DONE})
    names = {str(instance.uuid): instance.name}
    project_id = instance.project_id
    audit.record_server_action(
        alias, context, action.action, names, project_id=project_id, run_uuid=run.uuid, **action.details
    )
    return run
