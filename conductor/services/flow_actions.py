"""What may be done to a run now, by whom, and why not: computed from one table for pages and for the API alike."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.conf import settings

from conductor.cell_db.models import Service
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.interventions import INTERVENTIONS, Facts, Intervention
from conductor.core.states import LIVE_RUN_STATES, RunState, StepState
from conductor.journal.models import LeaseGrant, StepRecord, WorkflowRun
from conductor.services import flows
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


def panel(context: RequestContext, run_uuid: UUID | str) -> Panel:
    """The panel of one run; tenants do not learn who its workers were. Raises NotFound."""
    alias, run = flows.locate(context, run_uuid)
    children = len(flows.live_children(run)) if run.state == RunState.DONE else 0
    facts = facts_of(alias, run, live_children=children)
    owners = leases(alias, run.uuid) if context.is_admin else []
    return Panel(str(run.uuid), revision_of(run), choices(context, run, facts), owners, _requested(run))


def revision_of(run: WorkflowRun) -> str:
    """Changes whenever the run has moved; progress of a step does not change it."""
    place = (run.fencing_token, run.state, run.direction, run.position, run.attempt, run.is_cancel_requested)
    return sha256(repr((str(run.uuid), *map(str, place))).encode()).hexdigest()[:16]


def facts_of(alias: str, run: WorkflowRun, *, live_children: int = 0) -> Facts:
    """The facts that the rules ask for."""
    record = _current_record(alias, run)
    waits_for = run.waits_for or {}
    index = record.index if record is not None else -1
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
        is_host_heard=record is not None and bool(record.host) and _is_heard(alias, record.host),
        is_owned=run.owner is not None,
        is_lease_over=run.owner is not None and _is_lease_over(alias, run),
        has_resources=bool(run.resources),
        later_run=_later_run(alias, run) if run.state in FAILED else "",
        alternates_left=_alternates_left(run),
        results=frozenset(run.variables),
        undo_failed=_undo_failed(alias, run) if run.state == RunState.FAILED_NOT_CLEAN else frozenset(),
        live_children=live_children,
    )


def choices(context: RequestContext, run: WorkflowRun, facts: Facts) -> list[ActionChoice]:
    """Every intervention on a run, in the table's order, each with what the asker would be told."""
    return [_choice(context, run, facts, one) for one in INTERVENTIONS]


def may(context: RequestContext, one: Intervention, project_id: str) -> bool:
    """Whether the asker's role suffices for an intervention on a run of a project."""
    return context.is_admin or (project_id == context.project_id and one.role in context.roles)


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
    why_not = one.why_not(facts) if is_allowed else f"It takes the role {one.role}."
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
    )


def _current_record(alias: str, run: WorkflowRun) -> StepRecord | None:
    """The newest record of the step that is next or under way in the run's direction."""
    if not run.plan:
        return None
    index = {"do": run.position, UNDO: run.position - 1}.get(run.direction, len(run.plan))
    mine = StepRecord.objects.using(alias).filter(run=run, index=index, direction=run.direction, attempt=run.attempt)
    return mine.order_by("-try_number").first()


def _is_heard(alias: str, host: str) -> bool:
    if alias == API_ALIAS:
        return False  # no host belongs to the API level
    heard = Service.objects.using(alias).filter(
        host=host, is_forced_down=False, last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)
    )
    return heard.exists()


def _is_lease_over(alias: str, run: WorkflowRun) -> bool:
    return WorkflowRun.objects.using(alias).filter(pk=run.pk, lease_expires_at__lt=database_now()).exists()


def _later_run(alias: str, run: WorkflowRun) -> str:
    """A run that had the same server after this one let go of it."""
    if run.instance_uuid is None:
        return ""
    later = WorkflowRun.objects.using(alias).filter(instance_uuid=run.instance_uuid, pk__gt=run.pk)
    found = later.exclude(flow="reap").order_by("pk").values_list("uuid", flat=True).first()
    return str(found or "")


def _alternates_left(run: WorkflowRun) -> int | None:
    """How many of the chosen hosts were not tried; None for a run that was given none to choose from."""
    selections = run.inputs.get("selections")
    if not isinstance(selections, list):
        return None
    tried = run.variables.get("tried_hosts", [])
    return len([one for one in selections if one.get("host") not in tried])


def _undo_failed(alias: str, run: WorkflowRun) -> frozenset[int]:
    records = StepRecord.objects.using(alias).filter(run=run, direction=UNDO, attempt=run.attempt)
    newest: dict[int, str] = {}
    for index, state in records.order_by("pk").values_list("index", "state"):
        newest[index] = state
    return frozenset(index for index, state in newest.items() if state in (StepState.UNDO_FAILED, StepState.SKIPPED))
