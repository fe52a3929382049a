"""Details of one compute host for operators: its resources, guests, workflows and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from conductor.cell_db.models import Migration
from conductor.cells.hosts import load_of
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NotFound
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.states import FINAL_MIGRATION_STATUSES
from conductor.journal.models import WorkflowRun
from conductor.placement.models import HardwareClaim, HostHardware, ProviderInventory, ResourceProvider
from conductor.services.fleet import drains, fleet
from conductor.services.fleet.drains import DrainView
from conductor.services.hosts import aggregates, hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.hosts.types import AggregateView, HypervisorView, ServiceView
from conductor.services.servers import queries
from conductor.services.servers.types import InstanceData, InstanceQuery
from conductor.services.workflows import workflows
from conductor.services.workflows.types import RunView

MOST_GUESTS = 200
MOST_RUNS = 50
MOST_MOVES = 20


@dataclass(frozen=True)
class ClassInventory:
    """Inventory of one resource class. `provider` is named unless it is the node itself."""

    provider: str
    resource_class: str
    total: int
    reserved: int
    ratio: float
    used: int

    @property
    def capacity(self) -> float:
        return (self.total - self.reserved) * self.ratio

    @property
    def share(self) -> float:
        return min(1.0, self.used / self.capacity) if self.capacity > 0 else 0.0


@dataclass(frozen=True)
class DeviceView:
    """A PCI device, and the server that it is assigned to."""

    address: str
    vendor_id: str
    product_id: str
    numa_node: int | None
    holder_uuid: str = ""


@dataclass(frozen=True)
class MoveView:
    """A recent move of a server to or from the host. `other` is the host at the other end."""

    instance_uuid: str
    run_uuid: str
    kind: str
    status: str
    is_leaving: bool
    other: str
    created_at: Any


@dataclass(frozen=True)
class HostDetail:
    """A host. `state` is a constant of services.fleet. `drain` is the newest one, also when it has ended."""

    name: str
    state: str
    service: ServiceView
    nodes: list[HypervisorView]
    stocks: list[ClassInventory]
    traits: list[str]
    aggregates: list[AggregateView]
    guests: Page[InstanceData]
    runs: list[RunView]
    moves: list[MoveView]
    drain: DrainView | None = None
    numa_cells: Sequence[Mapping[str, Any]] = field(default=())
    devices: Sequence[DeviceView] = field(default=())


def get(context: RequestContext, host: str) -> HostDetail:
    """Return a host's details.

    Raises NotFound for an unknown host or one whose cell is down, Forbidden for callers other than operators.
    """
    service = service_of(context, host)
    nodes = hosts.list_hypervisors(context, HypervisorQuery(hosts=(host,))).items
    trees = _trees([node.uuid for node in nodes])
    drain = drain_of(context, host)
    cells, devices = _inside([node.uuid for node in nodes])
    return HostDetail(
        name=host,
        state=_state(service, drain),
        service=service,
        nodes=nodes,
        stocks=_stocks(trees, {node.node for node in nodes}),
        traits=sorted({trait for provider in trees for trait in provider.traits}),
        aggregates=[one for one in aggregates.list_all(context) if host in one.hosts],
        guests=_guests(context, host),
        runs=_runs(context, host),
        moves=_moves(service.cell, host),
        drain=drain,
        numa_cells=cells,
        devices=devices,
    )


def service_of(context: RequestContext, host: str) -> ServiceView:
    """Return the compute service of a host, for operators. Raises NotFound, Forbidden."""
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see hosts."))
    return drains.service_of(context, host)


def state_of(context: RequestContext, host: str) -> str:
    """Return the state of a host as the fleet shows it. Raises NotFound, Forbidden."""
    return _state(service_of(context, host), drain_of(context, host))


def drain_of(context: RequestContext, host: str) -> DrainView | None:
    """Return the newest drain of a host; None where there was none."""
    try:
        return drains.get(context, host)
    except NotFound:
        return None


def is_over(drain: DrainView) -> bool:
    """Whether a drain has ended."""
    runs = WorkflowRun.objects.using(drain.cell).live().filter(uuid=drain.run_uuid)
    return not runs.exists()


def _state(service: ServiceView, drain: DrainView | None) -> str:
    if not service.is_known:
        return fleet.UNKNOWN
    if not service.is_up:
        return fleet.DOWN
    if drain is not None and not is_over(drain):
        return fleet.DRAINING
    return fleet.CLOSED if service.is_disabled else fleet.UP


def _trees(node_uuids: Sequence[str]) -> list[ResourceProvider]:
    """Return the providers of the nodes, and those below them."""
    wanted = Q(uuid__in=node_uuids) | Q(root__uuid__in=node_uuids)
    return list(ResourceProvider.objects.filter(wanted).order_by("pk"))


def _stocks(providers: Sequence[ResourceProvider], own: set[str]) -> list[ClassInventory]:
    names = {provider.pk: provider.name for provider in providers}
    rows = ProviderInventory.objects.filter(provider_id__in=list(names)).order_by("provider_id", "resource_class")
    return [
        ClassInventory(
            "" if names[row.provider_id] in own else names[row.provider_id],
            row.resource_class,
            row.total,
            row.reserved,
            row.allocation_ratio,
            row.used,
        )
        for row in rows
    ]


def _guests(context: RequestContext, host: str) -> Page[InstanceData]:
    query = InstanceQuery(
        all_projects=True, filters={"host": host}, sort=(("name", False), ("uuid", False)), limit=MOST_GUESTS
    )
    return queries.list_page(context, query)


def runs_of(context: RequestContext, host: str) -> list[str]:
    """Return uuids of workflows under way on the host or its instances, newest first. Raises NotFound."""
    try:
        cell = service_of(context, host).cell
    except Forbidden:
        raise NotFound(phrase("Compute host %(host)s could not be found.", host=host[:60]))
    load = load_of(cell, host)
    wanted = Q(uuid__in=load.users) | Q(instance_uuid__in=[one.uuid for one in load.instances])
    wanted |= Q(flow=drains.FLOW, instance_name=host)
    live = WorkflowRun.objects.using(cell).live().filter(wanted).order_by("-pk")
    return [str(uuid) for uuid in live.values_list("uuid", flat=True)[:MOST_RUNS]]


def _runs(context: RequestContext, host: str) -> list[RunView]:
    uuids = runs_of(context, host)
    found = workflows.briefs(context, uuids)
    return [found[uuid] for uuid in uuids if uuid in found]


def _moves(cell: str, host: str) -> list[MoveView]:
    """Return the newest moves to and from the host, those under way first."""
    rows = Migration.objects.using(cell).filter(Q(source_host=host) | Q(destination_host=host)).order_by("-pk")
    found = [
        MoveView(
            instance_uuid=str(row.instance_uuid),
            run_uuid=str(row.run_uuid or ""),
            kind=row.migration_type,
            status=row.status,
            is_leaving=row.source_host == host,
            other=(row.destination_host if row.source_host == host else row.source_host) or "",
            created_at=row.created_at,
        )
        for row in rows[:MOST_MOVES]
    ]
    return sorted(found, key=lambda move: move.status in FINAL_MIGRATION_STATUSES)


def _inside(node_uuids: Sequence[str]) -> tuple[list[Mapping[str, Any]], list[DeviceView]]:
    """Return NUMA cells and PCI devices as the host reported them, each device with its holder."""
    holders: dict[str, str] = {}
    claims = HardwareClaim.objects.filter(provider__uuid__in=node_uuids)
    for consumer, grant in claims.values_list("consumer__uuid", "grant"):
        for device in grant.get("devices", ()):
            holders[device["address"] if isinstance(device, Mapping) else str(device)] = str(consumer)
    cells: list[Mapping[str, Any]] = []
    devices: list[DeviceView] = []
    for row in HostHardware.objects.filter(provider__uuid__in=node_uuids):
        cells += row.cells
        devices += [
            DeviceView(
                address=one["address"],
                vendor_id=one["vendor_id"],
                product_id=one["product_id"],
                numa_node=one.get("numa_node"),
                holder_uuid=holders.get(one["address"], ""),
            )
            for one in row.devices
        ]
    return cells, devices
