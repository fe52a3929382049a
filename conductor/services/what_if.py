"""Asking before doing: would it fit, where, and which guest of a host would go where. Nothing is claimed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from conductor.cell_db.models import Instance
from conductor.cells import host_load
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from conductor.core.host_state import HostTable
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.fits_if import fleet_remedies, request_remedies
from conductor.core.scheduling.replay import replay
from conductor.core.scheduling.what_if import FleetChange, Guest, LaunchTrial
from conductor.core.states import MigrationType
from conductor.scheduler import hypotheses, move_specs, quota_shares
from conductor.services import drains, flavors, instance_queries, instance_wishes, moves, quotas
from conductor.services.drains import COLD, LIVE, PlannedMove, Wish
from conductor.services.values import BuildWish

NO_CHANGE = FleetChange()
KINDS: Mapping[str, str] = {LIVE: MigrationType.LIVE_MIGRATION, COLD: MigrationType.MIGRATION}
ROOM = ("free_vcpus", "free_memory_mb", "free_disk_gb")


@dataclass(frozen=True)
class Refusal:
    """A rule that would refuse the real thing, whatever room there is: `rule` is quota or policy."""

    rule: str
    message: str


@dataclass(frozen=True)
class FitView:
    """Whether a request fits. `placed` of `num_instances` find a host; `hosts` are theirs, for operators.

    `would_be_done`: it fits and no rule refuses it. `within_quota`: how many the quota leaves room for. `fits_if` is as
    that of decisions. All of it is as things are at this moment: others may be faster.
    """

    fits: bool
    would_be_done: bool
    num_instances: int
    placed: int
    num_hosts: int
    num_fitting: int
    within_quota: int
    refusals: list[Refusal]
    advice: list[str]
    fits_if: list[dict[str, Any]]
    funnel: list[dict[str, Any]]
    snapshot_age_seconds: float
    hosts: list[str] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    missing_cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GuestView:
    """What would become of one guest: `how` it goes (live, cold) and to which host; or why it stays."""

    instance_uuid: str
    name: str
    how: str
    host: str
    reason: str = ""


@dataclass(frozen=True)
class DrainsPreview:
    """What would become of several hosts that are emptied together; the room is that of the hosts that stay."""

    hosts: list[DrainPreview]
    moved: int
    staying: int
    room_before: Mapping[str, float]
    room_after: Mapping[str, float]
    missing_cells: Mapping[str, str]


@dataclass(frozen=True)
class DrainPreview:
    """What would become of a host's guests, and how much room the rest of the fleet has before and after."""

    host: str
    guests: list[GuestView]
    moved: int
    staying: int
    room_before: Mapping[str, float]
    room_after: Mapping[str, float]
    missing_cells: Mapping[str, str]


def launch(
    context: RequestContext,
    wish: BuildWish,
    *,
    fleet: FleetChange = NO_CHANGE,
    flavor: Mapping[str, Any] | None = None,
    refusals: Sequence[Refusal] = (),
) -> FitView:
    """Would a launch find hosts? `flavor` changes values of the flavor that is named.

    What the launch itself would refuse as wrong raises Invalid here too; quota and policy are told in the answer.
    A change of the fleet is for operators: Forbidden.
    """
    _only_operators(context, fleet)
    spec, found = checked(context, wish)
    spec = replace(spec, num_instances=wish.max_count, flavor=replace(spec.flavor, **(flavor or {})))
    within, over = _quota(context, spec.flavor, wish)
    uuids = [f"asked-{number}" for number in range(wish.max_count)]
    return _fit(context, _Question(spec, uuids, fleet, within, [*refusals, *found, *over]))


def move(
    context: RequestContext,
    instance_uuid: str,
    *,
    flavor_ref: str = "",
    is_live: bool = False,
    fleet: FleetChange = NO_CHANGE,
    refusals: Sequence[Refusal] = (),
) -> FitView:
    """Could an instance move, or with `flavor_ref` be resized? Raises NotFound, Conflict while it has no host."""
    _only_operators(context, fleet)
    mapping = instance_queries.mapping_of(context, instance_uuid)
    rows = Instance.objects.using(mapping.cell.name).alive().filter(uuid=instance_uuid) if mapping.cell else None
    instance = rows.first() if rows is not None else None
    if instance is None or not instance.host:
        raise Conflict(f"Instance {instance_uuid} is on no host: there is nothing to move.")
    if flavor_ref and is_live:
        raise Invalid("A resize is not live: leave one of the two out.", field="is_live")
    kind = MigrationType.LIVE_MIGRATION if is_live else MigrationType.MIGRATION
    found = list(refusals)
    flavor = None
    if flavor_ref:
        kind, flavor = MigrationType.RESIZE, flavors.get(context, flavor_ref).spec
        try:
            limits = moves.limits_of(instance.project_id)
            quota_shares.refuse_excess(instance.project_id, str(instance.uuid), flavor, limits)
        except QuotaExceeded as error:
            found.append(Refusal("quota", error.message))
    spec = move_specs.supposed(instance, kind, flavor=flavor)
    within = 0 if any(one.rule == "quota" for one in found) else 1
    return _fit(context, _Question(spec, [str(instance.uuid)], fleet, within, found))


def drain(
    context: RequestContext, host: str, wish: Wish | None = None, *, fleet: FleetChange = NO_CHANGE
) -> DrainPreview:
    """Where each guest of a host would go, in the order in which a drain takes them; for operators.

    Raises NotFound, Forbidden.
    """
    return drain_all(context, [host], wish, fleet=fleet).hosts[0]


def drain_all(
    context: RequestContext, names: Sequence[str], wish: Wish | None = None, *, fleet: FleetChange = NO_CHANGE
) -> DrainsPreview:
    """The same for several hosts that are emptied together: none of them takes a guest of another.

    Raises NotFound for a host that is not there, Forbidden.
    """
    if not context.is_admin:
        raise Forbidden("Only administrators ask what would become of a host's guests.")
    leaving = {name: _leaving(context, name, wish or Wish()) for name in dict.fromkeys(names)}
    now = hypotheses.fleet()
    closed = [name for name in leaving if now.table.rows_of([name])]
    table = what_if.changed(now.table, replace(fleet, disable=(*fleet.disable, *closed)) if closed else fleet)
    guests = [guest for _, mine in leaving.values() for guest in mine]
    found, after = what_if.drain(table, guests, pipeline=hypotheses.pipeline())
    by_uuid = {one.instance_uuid: one for one in found}
    rooms = _room(table, list(leaving)), _room(after, list(leaving))
    previews = [
        _preview(name, [_guest(plan, by_uuid.get(plan.instance_uuid)) for plan in plans], rooms, now.missing_cells)
        for name, (plans, _) in leaving.items()
    ]
    return DrainsPreview(
        hosts=previews,
        moved=sum(one.moved for one in previews),
        staying=sum(one.staying for one in previews),
        room_before=rooms[0],
        room_after=rooms[1],
        missing_cells=now.missing_cells,
    )


def _leaving(context: RequestContext, host: str, wish: Wish) -> tuple[list[PlannedMove], list[Guest]]:
    """What is planned for each server of a host, and those that would look for another one."""
    service = drains.service_of(context, host)
    planned: list[PlannedMove] = []
    guests: list[Guest] = []
    for instance in host_load.of(service.cell, host).instances:
        plan = drains.planned(service.cell, instance, wish)
        planned.append(plan)
        if plan.how:
            spec = hypotheses.completed(move_specs.supposed(instance, KINDS[plan.how]))
            guests.append(Guest(plan.instance_uuid, plan.name, spec))
    return planned, guests


def _preview(
    host: str,
    views: list[GuestView],
    rooms: tuple[Mapping[str, float], Mapping[str, float]],
    missing_cells: Mapping[str, str],
) -> DrainPreview:
    moved = sum(bool(view.host) for view in views)
    return DrainPreview(host, views, moved, len(views) - moved, *rooms, missing_cells)


@dataclass(frozen=True)
class _Question:
    spec: RequestSpec
    instance_uuids: Sequence[str]
    fleet: FleetChange
    within_quota: int
    refusals: Sequence[Refusal]


def _fit(context: RequestContext, question: _Question) -> FitView:
    asked = hypotheses.now(question.spec)
    table = what_if.changed(asked.table, question.fleet)
    missing = asked.missing_cells
    trial = what_if.launch(
        table, asked.spec, question.instance_uuids, pipeline=hypotheses.pipeline(), missing_cells=missing
    )
    decision = trial.decision
    return FitView(
        fits=decision.is_successful,
        would_be_done=decision.is_successful and not question.refusals,
        num_instances=trial.num_instances,
        placed=trial.placed,
        num_hosts=decision.num_hosts,
        num_fitting=decision.funnel[-1].after if decision.funnel and not decision.round else 0,
        within_quota=question.within_quota,
        refusals=list(question.refusals),
        advice=list(decision.advice),
        fits_if=[] if decision.is_successful else _remedies(context, table, asked.spec, trial),
        funnel=[stage._asdict() for stage in decision.funnel],
        snapshot_age_seconds=decision.snapshot_age_seconds,
        hosts=list(trial.hosts) if context.is_admin else [],
        weights=[dict(weight) for weight in decision.weights] if context.is_admin else [],
        missing_cells=missing if context.is_admin else dict.fromkeys(missing, "did not answer"),
    )


def checked(context: RequestContext, wish: BuildWish) -> tuple[RequestSpec, list[Refusal]]:
    """What is asked for, and what a rule would refuse of it: that is left out, so that the rest can be answered."""
    refusals: list[Refusal] = []
    try:
        return instance_wishes.check(context, wish).spec, refusals
    except Forbidden as error:
        refusals.append(Refusal("policy", error.message))
        wish = replace(wish, requested_host="", forced_host="")
    return instance_wishes.check(context, wish).spec, refusals


def _remedies(context: RequestContext, table: HostTable, spec: RequestSpec, trial: LaunchTrial) -> list[dict[str, Any]]:
    pipeline = hypotheses.pipeline()
    fitting = hypotheses.fitting(pipeline, trial.num_instances)
    found = request_remedies(table, spec, fitting)
    if context.is_admin:
        found += fleet_remedies(replay(table, spec, pipeline), fitting)
    return [asdict(one) for one in found]


def _quota(context: RequestContext, flavor: FlavorSpec, wish: BuildWish) -> tuple[int, list[Refusal]]:
    """How many the quota leaves room for, and what it would say to fewer than the least that are wanted."""
    project_id, user_id, most = context.project_id, context.user_id, wish.max_count
    try:
        room = quotas.room_now(project_id, flavor, at_least=wish.min_count, at_most=most, user_id=user_id)
    except QuotaExceeded as error:
        room = quotas.room_now(project_id, flavor, at_least=0, at_most=most, user_id=user_id)
        return room, [Refusal("quota", error.message)]
    return room, []


def _only_operators(context: RequestContext, fleet: FleetChange) -> None:
    if not fleet.is_none and not context.is_admin:
        raise Forbidden("Only administrators ask about another fleet.")


def _guest(plan: PlannedMove, found: what_if.GuestPlan | None) -> GuestView:
    if found is None:
        return GuestView(plan.instance_uuid, plan.name, "", "", plan.reason)
    return GuestView(plan.instance_uuid, plan.name, plan.how, found.host, " ".join(found.advice))


def _room(table: HostTable, without: Sequence[str]) -> dict[str, float]:
    """What the hosts in service have left, `without` those that are emptied."""
    serving = table.is_up & ~(table.is_disabled | table.is_cell_closed | table.mask_of(without))
    return {name: round(float(getattr(table, name)[serving].clip(min=0).sum()), 3) for name in ROOM}
