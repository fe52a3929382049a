"""What may be done to a run now, by whom, and why not: computed from one table for pages and for the API alike."""

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
from conductor.core.interventions import ANSWERS, INTERVENTIONS, OPEN_STEP_STATES, Facts, Intervention
from conductor.core.states import LIVE_RUN_STATES, RunState, StepState
from conductor.journal.models import LeaseGrant, StepRecord, WorkflowRun
from conductor.services import agreements, flows
from conductor.services.agreements import AgreementView
from conductor.transactions import database_now

UNDO = "undo"
FAILED = (RunState.FAILED_UNDONE, RunState.FAILED_NOT_CLEAN)


@dataclass(frozen=True)
class ActionChoice:
    """One intervention on one run. `choices` are the steps that may be named where a step is needed."""

    id: str
    title: str
    does: str
    enabled: bool
    why_not: str
    needs: tuple[str, ...]
    choices: tuple[str, ...] = ()
    is_danger: bool = False
    is_for_asker: bool = True  # the role suffices, whatever the state
    takes_two: bool = False  # another operator has to agree before it is done


@dataclass(frozen=True)
class LeaseView:
    """One ownership of a run: its fencing token, by whom, why and since when."""

    token: int
    owner: str
    reason: str
    granted_at: Any


@dataclass(frozen=True)
class Panel:
    """What may be done to a run, for the revision that it was computed from, and who has owned it so far."""

    run_uuid: str
    revision: str
    actions: list[ActionChoice]
    leases: list[LeaseView]
    requested: str = ""  # what was ordered and is not carried out yet
    agreement: AgreementView | None = None  # what waits for a second person; for operators
    silent_since: datetime | None = None  # of the host that it waits for, as far as operators are told


def panel(context: RequestContext, run_uuid: UUID | str) -> Panel:
    """The panel of one run; tenants do not learn who its workers were. Raises NotFound."""
    alias, run = flows.locate(context, run_uuid)
    children = len(flows.live_children(run)) if run.state == RunState.DONE else 0
    looked = _look(alias, [run])
    facts = _facts(run, looked, live_children=children)
    owners = leases(alias, run.uuid) if context.is_admin else []
    asked = agreements.open_of(alias, [run]).get(run.pk) if context.is_admin else None
    waits = context.is_admin and facts.is_live and facts.step_state in OPEN_STEP_STATES
    silent_since = looked.silent.get(facts.step_host) if waits else None
    offered = choices(context, run, facts)
    return Panel(str(run.uuid), revision_of(run), offered, owners, _requested(run), asked, silent_since)


def revision_of(run: WorkflowRun) -> str:
    """Changes whenever the run has moved; progress of a step does not change it."""
    place = (run.fencing_token, run.state, run.direction, run.position, run.attempt, run.is_cancel_requested)
    return sha256(repr((str(run.uuid), *map(str, place))).encode()).hexdigest()[:16]


def panels(
    context: RequestContext, run_uuids: Mapping[str, Collection[str]]
) -> tuple[dict[str, Panel], Mapping[str, str]]:
    """The panels of many runs that go on or have failed, by uuid, and the databases that do not answer.

    `run_uuids` says what lies where; what is there no more, or is none of the asker's, is left out. Who has owned
    them is not told. Each database is asked as often for many runs as for one.
    """
    gathered = scatter_gather(lambda alias: _panels_in(context, alias, run_uuids[alias]), run_uuids)
    return {one.run_uuid: one for found in gathered.answers.values() for one in found}, gathered.failures


def _panels_in(context: RequestContext, alias: str, run_uuids: Collection[str]) -> list[Panel]:
    runs = [
        run
        for run in WorkflowRun.objects.using(alias).filter(uuid__in=run_uuids)
        if context.may_see_project(run.project_id)
    ]
    looked = _look(alias, runs)
    return [
        Panel(str(run.uuid), revision_of(run), choices(context, run, _facts(run, looked)), [], _requested(run))
        for run in runs
    ]


def facts_of(alias: str, run: WorkflowRun, *, live_children: int = 0) -> Facts:
    """The facts that the rules ask for."""
    return _facts(run, _look(alias, [run]), live_children=live_children)


@dataclass(frozen=True)
class _Looked:
    """What the facts of some runs are read from, by the run's key."""

    current: Mapping[int, StepRecord]
    heard: Collection[str]
    silent: Mapping[str, datetime]  # the other hosts, with when each was last heard
    lease_over: Collection[int]
    later: Mapping[int, str]
    undo_failed: Mapping[int, frozenset[int]]
    asked: Mapping[int, AgreementView]


def _look(alias: str, runs: Sequence[WorkflowRun]) -> _Looked:
    current = _current_records(alias, runs)
    heard, silent = _heard(alias, {record.host for record in current.values() if record.host})
    return _Looked(
        current=current,
        heard=heard,
        silent=silent,
        lease_over=_with_lease_over(alias, [run.pk for run in runs if run.owner is not None]),
        later=_later_runs(alias, [run for run in runs if run.state in FAILED and run.instance_uuid is not None]),
        undo_failed=_undo_failed(alias, [run for run in runs if run.state == RunState.FAILED_NOT_CLEAN]),
        asked=agreements.open_of(alias, runs),
    )


def _facts(run: WorkflowRun, looked: _Looked, *, live_children: int = 0) -> Facts:
    record = looked.current.get(run.pk)
    waits_for = run.waits_for or {}
    index = record.index if record is not None else -1
    asked = looked.asked.get(run.pk)
    title = run.plan[index]["title"] if 0 <= index < len(run.plan) else getattr(record, "name", "")
    return Facts(
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
        asked_for=asked.intervention if asked else "",
        asked_by=asked.by_id if asked else "",
    )


def choices(context: RequestContext, run: WorkflowRun, facts: Facts) -> list[ActionChoice]:
    """Every intervention on a run, in the table's order, each with what the asker would be told."""
    return [_choice(context, run, facts, one) for one in INTERVENTIONS if facts.asked_for or one.id not in ANSWERS]


def may(context: RequestContext, one: Intervention, project_id: str) -> bool:
    """Whether the asker's role suffices for an intervention on a run of a project."""
    return context.has_role(one.role, project_id)


def leases(alias: str, run_uuid: UUID | str) -> list[LeaseView]:
    """Every ownership of a run, oldest first."""
    grants = LeaseGrant.objects.using(alias).filter(run__uuid=run_uuid).order_by("pk")
    return [LeaseView(grant.pk, grant.owner, grant.reason, grant.granted_at) for grant in grants]


ORDER_TITLES = {"reschedule": "reschedule", "settle": "skip", "undo": "undo"}


def _requested(run: WorkflowRun) -> str:
    if run.state not in LIVE_RUN_STATES:
        return ""
    ordered = ORDER_TITLES.get((run.orders or {}).get("kind", ""), "")
    return "cancel" if run.is_cancel_requested and run.direction == "do" else ordered


def _choice(context: RequestContext, run: WorkflowRun, facts: Facts, one: Intervention) -> ActionChoice:
    is_allowed = may(context, one, run.project_id)
    why_not = f"It takes the role {one.role}."
    if is_allowed:
        why_not = one.why_not(facts) or agreements.why_not_for(context, one, facts.asked_by)
    steps: tuple[str, ...] = ()
    if "step" in one.needs and not why_not:
        steps = facts.retry_steps if one.id == "retry" else (facts.step_name,)
    return ActionChoice(
        id=one.id,
        title=one.title,
        does=one.does,
        enabled=not why_not,
        why_not=why_not,
        needs=one.needs,
        choices=steps,
        is_danger=one.is_danger,
        is_for_asker=is_allowed,
        takes_two=agreements.is_needed(one),
    )


def _current_records(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, StepRecord]:
    """Of each run the newest record of the step that is next or under way in its direction."""
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
    """The hosts that are heard, and when each of the others last was."""
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
    """Of each run the first that had the same server after it let go of it."""
    if not runs:
        return {}
    later = WorkflowRun.objects.using(alias).filter(instance_uuid=OuterRef("instance_uuid"), pk__gt=OuterRef("pk"))
    first = later.exclude(flow="reap").order_by("pk").values("uuid")[:1]
    asked = WorkflowRun.objects.using(alias).filter(pk__in=[run.pk for run in runs])
    return {pk: str(uuid or "") for pk, uuid in asked.annotate(later=Subquery(first)).values_list("pk", "later")}


def _alternates_left(run: WorkflowRun) -> int | None:
    """How many of the chosen hosts were not tried; None for a run that was given none to choose from."""
    selections = run.inputs.get("selections")
    if not isinstance(selections, list):
        return None
    tried = run.variables.get("tried_hosts", [])
    return len([one for one in selections if one.get("host") not in tried])


def _undo_failed(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, frozenset[int]]:
    """Of each run the steps of its last attempt that could not be undone."""
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
