"""Action history of instances for the Compute API: actions are workflows, their events are steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, NotFound
from conductor.core.states import RunState, StepState
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.servers.queries import mapping_of
from conductor.services.servers.types import ActionEventView, ActionView
from conductor.services.workflows import workflows

API = "default"
FAILED_RUNS = (
    RunState.FAILED_UNDONE,
    RunState.FAILED_NOT_CLEAN,
    RunState.NEEDS_OPERATOR,
)
RESULTS = {
    StepState.DONE: "Success",
    StepState.SKIPPED: "Success",
    StepState.FORCED: "Success",
    StepState.FAILED: "Error",
    StepState.CANCELLED: "Error",
}


@dataclass(frozen=True)
class _ActionRun:
    """One run of an action, with its steps."""

    run: WorkflowRun
    steps: Sequence[StepRecord]

    @property
    def changed_at(self) -> datetime:
        times = [self.run.created_at, self.run.started_at, self.run.finished_at]
        for step in self.steps:
            times += [step.started_at, step.finished_at]
        return max(time for time in times if time is not None)


def list_actions(context: RequestContext, instance_uuid: str) -> list[ActionView]:
    """Return every action on an instance, deleted ones included, newest first. Raises NotFound, CellUnavailable."""
    mapping = mapping_of(context, instance_uuid)
    parts = _parts(API, workflows.builds_of(mapping.build_run_uuid), None)
    if mapping.cell:
        cell = mapping.cell.name
        gathered = scatter_gather(lambda alias: _parts(alias, [], str(mapping.instance_uuid)), [cell])
        if gathered.failures:
            raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
        parts += gathered.answers[cell]
    by_request: dict[tuple[str, str], list[_ActionRun]] = {}
    for part in parts:
        by_request.setdefault((part.run.request_id, part.run.action), []).append(part)
    actions = [_action(str(mapping.instance_uuid), group) for group in by_request.values()]
    return sorted(actions, key=lambda action: (action.started_at, action.request_id), reverse=True)


def get(context: RequestContext, instance_uuid: str, request_id: str) -> ActionView:
    """Return the action of one request. Raises NotFound."""
    for action in list_actions(context, instance_uuid):
        if action.request_id == request_id:
            return action
    raise NotFound(f"Action for request_id {request_id} on instance {instance_uuid} not found")


def _parts(alias: str, run_uuids: Sequence[str], instance_uuid: str | None) -> list[_ActionRun]:
    runs = WorkflowRun.objects.using(alias).order_by("pk")
    wanted = list(runs.filter(instance_uuid=instance_uuid) if instance_uuid else runs.filter(uuid__in=run_uuids))
    steps: dict[int, list[StepRecord]] = {run.pk: [] for run in wanted}
    for step in StepRecord.objects.using(alias).filter(run_id__in=steps, direction="do").order_by("pk"):
        steps[step.run_id].append(step)
    return [_ActionRun(run, steps[run.pk]) for run in wanted]


def _action(instance_uuid: str, parts: Sequence[_ActionRun]) -> ActionView:
    first, last = parts[0].run, parts[-1].run
    return ActionView(
        request_id=first.request_id,
        action=first.action,
        instance_uuid=instance_uuid,
        user_id=first.user_id,
        project_id=first.project_id,
        started_at=first.created_at,
        updated_at=max(part.changed_at for part in parts),
        is_failed=last.state in FAILED_RUNS,
        events=tuple(event for part in parts for event in _events(part)),
    )


def _events(part: _ActionRun) -> list[ActionEventView]:
    """Return the steps that have a name in the Compute API. A retried step comes once per attempt."""
    names = {index: str(planned["event"]) for index, planned in enumerate(part.run.plan)}
    return [
        ActionEventView(
            event=names[step.index],
            started_at=step.started_at,
            finished_at=step.finished_at,
            result=RESULTS.get(StepState(step.state)),
            host=step.host,
            details=str(step.error["message"]) if step.error else None,
        )
        for step in part.steps
        if names.get(step.index)
    ]
