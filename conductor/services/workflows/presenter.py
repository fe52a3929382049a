"""Workflow presenter: converts journal rows to views, with plan and records merged, and tenants' redactions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Case, CharField, F, Max, Q, QuerySet, Value, When
from django.db.models.lookups import In

from conductor.cells.lookup import API_ALIAS
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable
from conductor.core.messages import restored
from conductor.core.phrases import phrase
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState, WaitCause
from conductor.journal.models import Event, ResourceLock, StepRecord, WorkflowRun
from conductor.services.workflows.types import EventView, RunView, StepView

Runs = QuerySet[WorkflowRun]
CatalogFilter = Callable[[Runs], Iterable[WorkflowRun]]
Placed = tuple[str, WorkflowRun]  # with the alias of its database

COMPUTE_LANE = "Compute"
# Plans leave out these steps, which run only when a run fails.
LAST_STEPS = {"BuryInCell0": "Record as failed", "MarkFailed": "Mark as failed"}
OPERATORS_ONLY = frozenset({"host", "owner", "worker", "token", "newest", "in_cell"})  # of an event's data
UNOWNED = {"owner": "", "fencing_token": 0, "lease_expires_at": None}


def brief(context: RequestContext, alias: str, run: WorkflowRun) -> RunView:
    """Return a run without its steps."""
    step = run.plan[min(run.position, len(run.plan) - 1)] if run.plan else {"title": ""}
    view = RunView(
        uuid=str(run.uuid),
        flow=run.flow,
        flow_version=run.flow_version,
        action=run.action,
        state=state_of(run),
        cell="" if alias == API_ALIAS else alias,
        instance_uuid=str(run.instance_uuid or ""),
        instance_name=run.instance_name,
        project_id=run.project_id,
        user_id=run.user_id,
        user_name=run.user_name,
        request_id=run.request_id,
        attempt=run.attempt,
        owner=run.owner or "",
        fencing_token=run.fencing_token,
        waits_for=run.waits_for if run.state not in FINAL_RUN_STATES else None,
        is_cancel_requested=run.is_cancel_requested,
        error=restored(run.error),
        uncompensated=list(run.uncompensated),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lease_expires_at=run.lease_expires_at,
        parent_uuid=str(run.parent_uuid or ""),
        live_run_uuid=str(run.inputs.get("live_run_uuid") or ""),
        step_number=min(run.position + 1, len(run.plan)),
        step_count=len(run.plan),
        step_title=step["title"],
    )
    return view if context.is_admin else _for_tenant(view)


def detailed(context: RequestContext, placed: Sequence[Placed]) -> list[RunView]:
    """Return runs with steps, locks and the number of their last event: three queries per database."""
    by_alias: dict[str, list[WorkflowRun]] = defaultdict(list)
    for alias, run in placed:
        by_alias[alias].append(run)

    def ask(alias: str) -> dict[int, dict[str, Any]]:
        return _belongings(alias, by_alias[alias])

    gathered = scatter_gather(ask, by_alias)
    if gathered.failures:
        raise CellUnavailable(
            phrase("Cells with steps of the workflow don't respond: %(cells)s.", cells=", ".join(gathered.failures))
        )
    views = []
    for alias, run in placed:
        has = gathered.answers[alias][run.pk]
        view = replace(
            brief(context, alias, run),
            steps=_steps(alias, run, has["records"]),
            locks=has["locks"],
            last_event=has["last_event"],
        )
        views.append(with_steps_ahead(view))
    return views if context.is_admin else _steps_for_tenant(views)


def redacted(context: RequestContext, event: EventView) -> EventView:
    """Return an event as the caller may see it: tenants see no host and no worker."""
    if context.is_admin:
        return event
    data = {key: value for key, value in event.data.items() if key not in OPERATORS_ONLY}
    if isinstance(data.get("waits_for"), Mapping):
        data["waits_for"] = _waits_for_tenant(data["waits_for"])
    return replace(event, data=data)


def _belongings(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {run.pk: {"records": [], "locks": [], "last_event": 0} for run in runs}
    by_uuid = {run.uuid: run.pk for run in runs}
    for record in StepRecord.objects.using(alias).filter(run_id__in=found).order_by("pk"):
        found[record.run_id]["records"].append(record)
    locks = ResourceLock.objects.using(alias).filter(run_id__in=found).order_by("resource")
    for run_id, resource in locks.values_list("run_id", "resource"):
        assert run_id is not None
        found[run_id]["locks"].append(resource)
    events = Event.objects.using(alias).filter(run_uuid__in=by_uuid).values("run_uuid").annotate(last=Max("pk"))
    for run_uuid, last in events.order_by().values_list("run_uuid", "last"):
        assert run_uuid is not None
        found[by_uuid[run_uuid]]["last_event"] = last
    return found


def _steps(alias: str, run: WorkflowRun, records: Sequence[StepRecord]) -> list[StepView]:
    """Return the attempted steps in order, then the planned ones of the current attempt."""
    tried = [_tried(alias, run, record) for record in records]
    seen = {record.index for record in records if record.direction == "do" and record.attempt == run.attempt}
    rest = [index for index in range(len(run.plan)) if index not in seen]
    return [*tried, *(_planned(run, index) for index in rest)]


def _tried(alias: str, run: WorkflowRun, record: StepRecord) -> StepView:
    planned = _plan_entry(alias, run, record)
    return StepView(
        index=record.index,
        name=record.name,
        title=planned["title"],
        lane=_lane(planned["lane"], record.host),
        event=planned["event"],
        direction=record.direction,
        attempt=record.attempt,
        try_number=record.try_number,
        state=record.state,
        host=record.host,
        worker=record.worker,
        fencing_token=record.fencing_token,
        step_key=record.step_key,
        started_at=record.started_at,
        finished_at=record.finished_at,
        progress=record.progress,
        result=record.result,
        error=restored(record.error),
    )


def _planned(run: WorkflowRun, index: int) -> StepView:
    planned = run.plan[index]
    return StepView(
        index=index,
        name=planned["name"],
        title=planned["title"],
        lane=_lane(planned["lane"], ""),
        event=planned["event"],
        direction="do",
        attempt=run.attempt,
        try_number=0,
        state=StepState.PLANNED,
    )


def _plan_entry(alias: str, run: WorkflowRun, record: StepRecord) -> Mapping[str, str]:
    """Return the plan's entry for a record, or one made of its name."""
    if record.index < len(run.plan):
        return run.plan[record.index]  # type: ignore[no-any-return]
    words = LAST_STEPS.get(record.name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", record.name).capitalize()
    lane = "Conductor" if alias == API_ALIAS else "Cell conductor"
    return {"title": words, "lane": lane, "event": ""}


def _lane(lane: str, host: str) -> str:
    return f"{COMPUTE_LANE}/{host}" if lane == COMPUTE_LANE and host else lane


def _for_tenant(view: RunView) -> RunView:
    return replace(view, waits_for=_waits_for_tenant(view.waits_for), **UNOWNED)  # type: ignore[arg-type]


def _waits_for_tenant(waits_for: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if waits_for is None or waits_for.get("cause") not in (WaitCause.HOST, WaitCause.SCHEDULER):
        return waits_for
    return {"cause": waits_for["cause"], "detail": ""}


def _steps_for_tenant(views: Sequence[RunView]) -> list[RunView]:
    """Replace hosts by "host 1", "host 2" in order of use: tenants see that the host changed, but not its name."""
    hosts = dict.fromkeys(step.host for view in views for step in view.steps if step.host)
    names = {host: f"host {number}" for number, host in enumerate(hosts, start=1)}
    return [
        replace(
            view,
            steps=[_step_for_tenant(step, names.get(step.host, "")) for step in view.steps],
            locks=[name for name in view.locks if not name.startswith("host:")],
        )
        for view in views
    ]


def _step_for_tenant(step: StepView, host: str) -> StepView:
    lane = _lane(COMPUTE_LANE, host) if step.lane == f"{COMPUTE_LANE}/{step.host}" else step.lane
    return replace(step, host=host, lane=lane, worker="", fencing_token=0, step_key="", result=None)


_ON_A_HOST = Q(state=RunState.WAITING, waits_for__cause=WaitCause.HOST)
_AT_WORK = frozenset({RunState.RUNNING, RunState.UNDOING})
# The same in SQL, for counts and filters: a list narrowed to a state has the rows that show it.
SHOWN_STATE = Case(
    When(_ON_A_HOST & Q(direction="undo"), then=Value(RunState.UNDOING)),
    When(_ON_A_HOST, then=Value(RunState.RUNNING)),
    default=F("state"),
    output_field=CharField(),
)


def state_of(run: WorkflowRun) -> str:
    """Return the state to show. A run that waits for its host is shown as running or undoing."""
    if run.state == RunState.WAITING and (run.waits_for or {}).get("cause") == WaitCause.HOST:
        return RunState.UNDOING if run.direction == "undo" else RunState.RUNNING
    return run.state


def among(states: Iterable[str]) -> Q:
    """Return the condition for runs that are shown in one of these states."""
    wanted = set(states)
    kept = Q(state__in=wanted | {RunState.WAITING} if wanted & _AT_WORK else wanted)
    is_plain = not wanted & {*_AT_WORK, RunState.WAITING} or wanted >= {*_AT_WORK, RunState.WAITING}
    return kept if is_plain else kept & Q(In(SHOWN_STATE, sorted(wanted)))


def with_steps_ahead(run: RunView) -> RunView:
    """Mark steps that have not begun as planned while the run goes forward, else as not run.

    A run that has ended, or is rolled back, starts no further step. A retry afterwards is another attempt.
    """
    has_turned = any(step.direction == "undo" and step.attempt == run.attempt for step in run.steps)
    goes_forward = run.state in LIVE_RUN_STATES and run.state != RunState.UNDOING and not has_turned
    ahead = StepState.PLANNED if goes_forward else StepState.NOT_RUN
    return replace(run, steps=[step if step.started_at else replace(step, state=ahead) for step in run.steps])
