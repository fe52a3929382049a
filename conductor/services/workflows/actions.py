"""Permitted interventions in a run, by role, with the reason if refused; one table serves the pages and the API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Q, Subquery

from conductor.cell_db.models import Service
from conductor.cells.lookup import API_ALIAS
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.interventions import ANSWERS, INTERVENTIONS, OPEN_STEP_STATES, Intervention, InterventionFacts
from conductor.core.messages import message
from conductor.core.states import LIVE_RUN_STATES, RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import LeaseGrant, StepRecord, WorkflowRun
from conductor.services.workflows import approvals, workflows
from conductor.services.workflows.approvals import ApprovalView

UNDO = "undo"
FAILED = (RunState.FAILED_UNDONE, RunState.FAILED_NOT_CLEAN)


@dataclass(frozen=True)
class AvailableIntervention:
    """One intervention in one run. `choices` are the steps that may be named where a step is required."""

    id: str
    title: str
    does: str
    enabled: bool
    why_not: str
    needs: tuple[str, ...]
    choices: tuple[str, ...] = ()
    is_danger: bool = False
    is_for_caller: bool = True  # the role suffices, in any state
    takes_two: bool = False  # another operator has to approve it first


@dataclass(frozen=True)
class LeaseView:
    """One ownership of a run: its fencing token, owner, reason and time."""

    token: int
    owner: str
    reason: str
    granted_at: Any


@dataclass(frozen=True)
class ActionPanel:
    """The interventions in a run, the revision that they were computed from, and its owners so far."""

    run_uuid: str
    revision: str
    actions: list[AvailableIntervention]
    leases: list[LeaseView]
    requested: str = ""  # an intervention that is not carried out yet
    approval: ApprovalView | None = None  # pending approval; for operators
    unresponsive_since: datetime | None = None  # of the host that it waits for; for operators


def panel(context: RequestContext, run_uuid: UUID | str) -> ActionPanel:
    """Return the panel of one run. Tenants get it without the owners. Raises NotFound."""
    alias, run = workflows.locate(context, run_uuid)
    children = len(workflows.live_children(run)) if run.state == RunState.DONE else 0
    looked = _look(alias, [run])
    facts = _facts(run, looked, live_children=children)
    owners = leases(alias, run.uuid) if context.is_admin else []
    requested = approvals.open_of(alias, [run]).get(run.pk) if context.is_admin else None
    waits = context.is_admin and facts.is_live and facts.step_state in OPEN_STEP_STATES
    unresponsive_since = looked.unresponsive.get(facts.step_host) if waits else None
    offered = choices(context, run, facts)
    return ActionPanel(str(run.uuid), revision_of(run), offered, owners, _requested(run), requested, unresponsive_since)


def revision_of(run: WorkflowRun) -> str:
    """Return a run's revision, which changes with its state and position, but not with progress within a step."""
    place = (run.fencing_token, run.state, run.direction, run.position, run.attempt, run.is_cancel_requested)
    return sha256(repr((str(run.uuid), *map(str, place))).encode()).hexdigest()[:16]


def panels(
    context: RequestContext, run_uuids: Mapping[str, Collection[str]]
) -> tuple[dict[str, ActionPanel], Mapping[str, str]]:
    """Return the panels of many live or failed runs by uuid, and the databases that are down.

    `run_uuids` are the runs in each database; deleted ones, and those of other projects, are left out, and so are
    owners. The number of queries does not depend on the number of runs.
    """
    gathered = scatter_gather(lambda alias: _panels_in(context, alias, run_uuids[alias]), run_uuids)
    return {one.run_uuid: one for found in gathered.answers.values() for one in found}, gathered.failures


def _panels_in(context: RequestContext, alias: str, run_uuids: Collection[str]) -> list[ActionPanel]:
    runs = [
        run
        for run in WorkflowRun.objects.using(alias).filter(uuid__in=run_uuids)
        if context.may_see_project(run.project_id)
    ]
    looked = _look(alias, runs)
    return [
        ActionPanel(str(run.uuid), revision_of(run), choices(context, run, _facts(run, looked)), [], _requested(run))
        for run in runs
    ]


def facts_of(alias: str, run: WorkflowRun, *, live_children: int = 0) -> InterventionFacts:
    """Return the facts that the rules use."""
    return _facts(run, _look(alias, [run]), live_children=live_children)


@dataclass(frozen=True)
class _RunFacts:
    """Data from which the facts of some runs are derived, by the run's key."""

    current: Mapping[int, StepRecord]
    heard: Collection[str]
    unresponsive: Mapping[str, datetime]  # the other hosts, with their last heartbeats
    lease_over: Collection[int]
    later: Mapping[int, str]
    undo_failed: Mapping[int, frozenset[int]]
    asked: Mapping[int, ApprovalView]


def _look(alias: str, runs: Sequence[WorkflowRun]) -> _RunFacts:
    current = _current_records(alias, runs)
    heard, unresponsive = _heard(alias, {record.host for record in current.values() if record.host})
    return _RunFacts(
        current=current,
        heard=heard,
        unresponsive=unresponsive,
        lease_over=_with_lease_over(alias, [run.pk for run in runs if run.owner is not None]),
        later=_later_runs(alias, [run for run in runs if run.state in FAILED and run.instance_uuid is not None]),
        undo_failed=_undo_failed(alias, [run for run in runs if run.state == RunState.FAILED_NOT_CLEAN]),
        asked=approvals.open_of(alias, runs),
    )


def _facts(run: WorkflowRun, looked: _RunFacts, *, live_children: int = 0) -> InterventionFacts:
    record = looked.current.get(run.pk)
    waits_for = run.waits_for or {}
    index = record.index if record is not None else -1
    requested = looked.asked.get(run.pk)
    title = run.plan[index]["title"] if 0 <= index < len(run.plan) else getattr(record, "name", "")
    return InterventionFacts(
        state=run.state,
        direction=run.direction,
        position=run.position,
        plan=run.plan,
        is_cancellable=run.is_cancellable,
        is_cancel_requested=run.is_cancel_requested,
        has_orders=bool(run.orders),
        wait_cause=str(waits_for.get("cause", "")),
        wait_detail=str(waits_for.get("detail", "")),
        step_name=record.name if record is not None else "",
        step_title=title,
        step_state=record.state if record is not None else "",
        step_host=record.host if record is not None else "",
        is_host_heard=record is not None and record.host in looked.heard,
        is_owned=run.owner is not None,
        is_lease_over=run.pk in looked.lease_over,
        has_resources=bool(run.resources),
        later_run=looked.later.get(run.pk, ""),
        alternates_left=_alternates_left(run),
        results=frozenset(run.variables),
        undo_failed=looked.undo_failed.get(run.pk, frozenset()),
        live_children=live_children,
        asked_for=requested.intervention if requested else "",
        asked_by=requested.by_id if requested else "",
    )


def choices(context: RequestContext, run: WorkflowRun, facts: InterventionFacts) -> list[AvailableIntervention]:
    """Return every intervention in a run, in the table's order, each with its reason if refused."""
    return [_choice(context, run, facts, one) for one in INTERVENTIONS if facts.asked_for or one.id not in ANSWERS]


def may(context: RequestContext, one: Intervention, project_id: str) -> bool:
    """Whether the caller's role suffices for an intervention in a run of a project."""
    return context.has_role(one.role, project_id)


def leases(alias: str, run_uuid: UUID | str) -> list[LeaseView]:
    """Return every ownership of a run, oldest first."""
    grants = LeaseGrant.objects.using(alias).filter(run__uuid=run_uuid).order_by("pk")
    return [LeaseView(grant.pk, grant.owner, grant.reason, grant.granted_at) for grant in grants]


ORDER_TITLES = {"reschedule": "reschedule", "settle": "skip", "undo": "undo"}


def _requested(run: WorkflowRun) -> str:
    if run.state not in LIVE_RUN_STATES:
        return ""
    ordered = ORDER_TITLES.get((run.orders or {}).get("kind", ""), "")
    return "cancel" if run.is_cancel_requested and run.direction == "do" else ordered


def _choice(
    context: RequestContext, run: WorkflowRun, facts: InterventionFacts, one: Intervention
) -> AvailableIntervention:
    is_allowed = may(context, one, run.project_id)
    why_not: str = message("workflow.role", role=one.role)
    if is_allowed:
        why_not = one.why_not(facts) or approvals.why_not_for(context, one, facts.asked_by)
    steps: tuple[str, ...] = ()
    if "step" in one.needs and not why_not:
        steps = facts.retry_steps if one.id == "retry" else (facts.step_name,)
    return AvailableIntervention(
        id=one.id,
        title=one.title,
        does=one.does,
        enabled=not why_not,
        why_not=why_not,
        needs=one.needs,
        choices=steps,
        is_danger=one.is_danger,
        is_for_caller=is_allowed,
        takes_two=approvals.is_needed(one),
    )


def _current_records(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, StepRecord]:
    """Return each run's newest record of the step that is next or under way in its direction."""
    wanted = {}
    for run in runs:
        index = {"do": run.position, UNDO: run.position - 1}.get(run.direction, len(run.plan))
        if run.plan:
            wanted[run.pk] = (index, run.direction, run.attempt)
    places = Q(pk__in=[])
    for run_id, (index, direction, attempt) in wanted.items():
        places |= Q(run_id=run_id, index=index, direction=direction, attempt=attempt)
    found = StepRecord.objects.using(alias).filter(places).order_by("try_number") if wanted else ()
    return {record.run_id: record for record in found}


def _heard(alias: str, hosts: Collection[str]) -> tuple[frozenset[str], dict[str, datetime]]:
    """Return the hosts that are up, and the last heartbeat of each other host."""
    if alias == API_ALIAS or not hosts:
        return frozenset(), {}  # no host belongs to the API level
    is_heard = Q(is_forced_down=False, last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS))
    rows = Service.objects.using(alias).filter(host__in=hosts).annotate(is_heard=is_heard)
    found = list(rows.values_list("host", "is_heard", "last_seen_at"))
    return frozenset(host for host, heard, _ in found if heard), {host: at for host, heard, at in found if not heard}


def _with_lease_over(alias: str, owned: Collection[int]) -> frozenset[int]:
    if not owned:
        return frozenset()
    over = WorkflowRun.objects.using(alias).filter(pk__in=owned, lease_expires_at__lt=database_now())
    return frozenset(over.values_list("pk", flat=True))


def _later_runs(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, str]:
    """Return, for each run, the first later run on the same server."""
    if not runs:
        return {}
    later = WorkflowRun.objects.using(alias).filter(instance_uuid=OuterRef("instance_uuid"), pk__gt=OuterRef("pk"))
    first = later.exclude(flow="reap").order_by("pk").values("uuid")[:1]
    requested = WorkflowRun.objects.using(alias).filter(pk__in=[run.pk for run in runs])
    return {pk: str(uuid or "") for pk, uuid in requested.annotate(later=Subquery(first)).values_list("pk", "later")}


def _alternates_left(run: WorkflowRun) -> int | None:
    """Return how many of the selected hosts were not tried; None for a run without selections."""
    selections = run.inputs.get("selections")
    if not isinstance(selections, list):
        return None
    tried = run.variables.get("tried_hosts", [])
    return len([one for one in selections if one.get("host") not in tried])


def _undo_failed(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, frozenset[int]]:
    """Return, for each run, the steps of its last attempt whose undo failed."""
    attempts = {run.pk: run.attempt for run in runs}
    if not attempts:
        return {}
    records = StepRecord.objects.using(alias).filter(run_id__in=attempts, direction=UNDO).order_by("pk")
    newest: dict[int, dict[int, str]] = {}
    for run_id, attempt, index, state in records.values_list("run_id", "attempt", "index", "state"):
        if attempt == attempts[run_id]:
            newest.setdefault(run_id, {})[index] = state
    bad = (StepState.UNDO_FAILED, StepState.SKIPPED)
    return {pk: frozenset(index for index, state in steps.items() if state in bad) for pk, steps in newest.items()}
