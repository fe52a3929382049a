"""Hypothetical launches, moves and drains: would they fit, and on which hosts. Nothing is claimed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from conductor.cell_db.models import Instance
from conductor.cells.hosts import load_of
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from conductor.core.host_state import HostTable
from conductor.core.phrases import phrase
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.fits_if import fleet_remedies, request_remedies
from conductor.core.scheduling.replay import replay
from conductor.core.scheduling.what_if import FleetChange, InstanceToMove, LaunchTrial
from conductor.core.states import MigrationType
from conductor.scheduler import claims, hypotheses, request_specs
from conductor.services.fleet import drains
from conductor.services.fleet.drains import COLD, LIVE, DrainRequest, PlannedMove
from conductor.services.quotas import quotas
from conductor.services.server_migrations import resizes
from conductor.services.servers import create_requests, flavors, queries
from conductor.services.servers.types import InstanceCreate

NO_CHANGE = FleetChange()
KINDS: Mapping[str, str] = {LIVE: MigrationType.LIVE_MIGRATION, COLD: MigrationType.MIGRATION}
ROOM = ("free_vcpus", "free_memory_mb", "free_disk_gb")


@dataclass(frozen=True)
class Refusal:
    """A rule that would refuse the real request, independent of capacity. `rule` is quota or policy."""

    rule: str
    message: str


@dataclass(frozen=True)
class FitView:
    """Result for a hypothetical request: `placed` of `num_instances` find a host. `hosts` are those, for operators.

    `would_be_done`: it fits and no rule refuses it. `within_quota`: how many the quota permits. `fits_if` is as in
    decisions. The result is a snapshot: other requests may take the capacity first.
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
    """Hypothetical move of one guest: the way (`how`: live, cold) and its host, or the reason why it stays."""

    instance_uuid: str
    name: str
    how: str
    host: str
    reason: str = ""


@dataclass(frozen=True)
class DrainsPreview:
    """Hypothetical drain of several hosts together; the capacity is that of the hosts that stay."""

    hosts: list[DrainPreview]
    moved: int
    staying: int
    room_before: Mapping[str, float]
    room_after: Mapping[str, float]
    missing_cells: Mapping[str, str]


@dataclass(frozen=True)
class DrainPreview:
    """Hypothetical drain of a host, and the capacity of the rest of the fleet before and after."""

    host: str
    guests: list[GuestView]
    moved: int
    staying: int
    room_before: Mapping[str, float]
    room_after: Mapping[str, float]
    missing_cells: Mapping[str, str]


def launch(
    context: RequestContext,
    requested: InstanceCreate,
    *,
    fleet: FleetChange = NO_CHANGE,
    flavor: Mapping[str, Any] | None = None,
    refusals: Sequence[Refusal] = (),
) -> FitView:
    """Evaluate a hypothetical launch. `flavor` changes values of the named flavor.

    An invalid request raises Invalid as the launch itself does; quota and policy refusals are in the result. A change
    of the fleet is for operators: Forbidden.
    """
    _only_operators(context, fleet)
    spec, found = checked(context, requested)
    spec = replace(spec, num_instances=requested.max_count, flavor=replace(spec.flavor, **(flavor or {})))
    within, over = _quota(context, spec.flavor, requested)
    uuids = [f"asked-{number}" for number in range(requested.max_count)]
    return _fit(context, _LaunchQuery(spec, uuids, fleet, within, [*refusals, *found, *over]))


def move(
    context: RequestContext,
    instance_uuid: str,
    *,
    flavor_ref: str = "",
    is_live: bool = False,
    fleet: FleetChange = NO_CHANGE,
    refusals: Sequence[Refusal] = (),
) -> FitView:
    """Evaluate a hypothetical move, or with `flavor_ref` a resize. Raises NotFound, Conflict while it has no host."""
    _only_operators(context, fleet)
    mapping = queries.mapping_of(context, instance_uuid)
    rows = Instance.objects.using(mapping.cell.name).alive().filter(uuid=instance_uuid) if mapping.cell else None
    instance = rows.first() if rows is not None else None
    if instance is None or not instance.host:
        raise Conflict(phrase("Instance %(instance)s has no host, so it can't be moved.", instance=instance_uuid))
    if flavor_ref and is_live:
        raise Invalid(phrase("A resize can't be live. Remove the flavor or is_live."), field="is_live")
    kind = MigrationType.LIVE_MIGRATION if is_live else MigrationType.MIGRATION
    found = list(refusals)
    flavor = None
    if flavor_ref:
        kind, flavor = MigrationType.RESIZE, flavors.get(context, flavor_ref).spec
        try:
            limits = resizes.limits_of(instance.project_id)
            claims.refuse_excess(instance.project_id, str(instance.uuid), flavor, limits)
        except QuotaExceeded as error:
            found.append(Refusal("quota", error.message))
    spec = request_specs.hypothetical(instance, kind, flavor=flavor)
    within = 0 if any(one.rule == "quota" for one in found) else 1
    return _fit(context, _LaunchQuery(spec, [str(instance.uuid)], fleet, within, found))


def drain(
    context: RequestContext, host: str, requested: DrainRequest | None = None, *, fleet: FleetChange = NO_CHANGE
) -> DrainPreview:
    """Return where each guest of a host would go, in the order of a drain; for operators.

    Raises NotFound, Forbidden.
    """
    return drain_all(context, [host], requested, fleet=fleet).hosts[0]


def drain_all(
    context: RequestContext,
    names: Sequence[str],
    requested: DrainRequest | None = None,
    *,
    fleet: FleetChange = NO_CHANGE,
) -> DrainsPreview:
    """Return the same for several hosts that are drained together. None of them gets a guest of another.

    Raises NotFound for an unknown host, Forbidden.
    """
    if not context.is_admin:
        raise Forbidden(phrase("Only administrators can simulate the drain of a host."))
    leaving = {name: _leaving(context, name, requested or DrainRequest()) for name in dict.fromkeys(names)}
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


def _leaving(
    context: RequestContext, host: str, requested: DrainRequest
) -> tuple[list[PlannedMove], list[InstanceToMove]]:
    """Return the planned move of each server of a host, and the servers that need another host."""
    service = drains.service_of(context, host)
    planned: list[PlannedMove] = []
    guests: list[InstanceToMove] = []
    for instance in load_of(service.cell, host).instances:
        plan = drains.planned(service.cell, instance, requested)
        planned.append(plan)
        if plan.how:
            spec = hypotheses.completed(request_specs.hypothetical(instance, KINDS[plan.how]))
            guests.append(InstanceToMove(plan.instance_uuid, plan.name, spec))
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
class _LaunchQuery:
    spec: RequestSpec
    instance_uuids: Sequence[str]
    fleet: FleetChange
    within_quota: int
    refusals: Sequence[Refusal]


def _fit(context: RequestContext, question: _LaunchQuery) -> FitView:
    requested = hypotheses.now(question.spec)
    table = what_if.changed(requested.table, question.fleet)
    missing = requested.missing_cells
    trial = what_if.launch(
        table, requested.spec, question.instance_uuids, pipeline=hypotheses.pipeline(), missing_cells=missing
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
        fits_if=[] if decision.is_successful else _remedies(context, table, requested.spec, trial),
        funnel=[stage._asdict() for stage in decision.funnel],
        snapshot_age_seconds=decision.snapshot_age_seconds,
        hosts=list(trial.hosts) if context.is_admin else [],
        weights=[dict(weight) for weight in decision.weights] if context.is_admin else [],
        missing_cells=missing if context.is_admin else dict.fromkeys(missing, "did not answer"),
    )


def checked(context: RequestContext, requested: InstanceCreate) -> tuple[RequestSpec, list[Refusal]]:
    """Check a request; returns it without the fields that policy refuses, and these refusals."""
    refusals: list[Refusal] = []
    try:
        return create_requests.check(context, requested).spec, refusals
    except Forbidden as error:
        refusals.append(Refusal("policy", error.message))
        requested = replace(requested, requested_host="", forced_host="", forced_node="")
    return create_requests.check(context, requested).spec, refusals


def _remedies(context: RequestContext, table: HostTable, spec: RequestSpec, trial: LaunchTrial) -> list[dict[str, Any]]:
    pipeline = hypotheses.pipeline()
    fitting = hypotheses.fitting(pipeline, trial.num_instances)
    found = request_remedies(table, spec, fitting)
    if context.is_admin:
        found += fleet_remedies(replay(table, spec, pipeline), fitting)
    return [asdict(one) for one in found]


def _quota(context: RequestContext, flavor: FlavorSpec, requested: InstanceCreate) -> tuple[int, list[Refusal]]:
    """Return how many instances the quota permits, and its refusal where that is fewer than the minimum."""
    project_id, user_id, most = context.project_id, context.user_id, requested.max_count
    try:
        room = quotas.preview_launch(project_id, flavor, at_least=requested.min_count, at_most=most, user_id=user_id)
    except QuotaExceeded as error:
        room = quotas.preview_launch(project_id, flavor, at_least=0, at_most=most, user_id=user_id)
        return room, [Refusal("quota", error.message)]
    return room, []


def _only_operators(context: RequestContext, fleet: FleetChange) -> None:
    if not fleet.is_none and not context.is_admin:
        raise Forbidden(phrase("Only administrators can simulate a changed fleet."))


def _guest(plan: PlannedMove, found: what_if.PlacementPlan | None) -> GuestView:
    if found is None:
        return GuestView(plan.instance_uuid, plan.name, "", "", plan.reason)
    return GuestView(plan.instance_uuid, plan.name, plan.how, found.host, " ".join(found.advice))


def _room(table: HostTable, without: Sequence[str]) -> dict[str, float]:
    """Return the free capacity of hosts in service, `without` the drained ones."""
    serving = table.is_up & ~(table.is_disabled | table.is_cell_closed | table.mask_of(without))
    return {name: round(float(getattr(table, name)[serving].clip(min=0).sum()), 3) for name in ROOM}
