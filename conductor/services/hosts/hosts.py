"""Compute hosts and services of every cell, for operators."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.db.models import BooleanField, Case, ExpressionWrapper, Q, When

from conductor import events
from conductor.api_db.models import CellMapping, HostMapping
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import GatherResult, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.metrics import BOOTED_AT
from conductor.core.page import Page
from conductor.db.transactions import database_now, write_tx
from conductor.placement import traits
from conductor.placement.models import ProviderInventory
from conductor.services.hosts.types import HypervisorView, ServiceView

A = TypeVar("A")
COMPUTE = "nova-compute"
CELL_STRIDE = 1000  # a service's number is unique over all cells: row number × stride + the cell's number


@dataclass(frozen=True)
class HypervisorQuery:
    """Filters for nodes, in the order of their names. `name_part` is a part of the node's name."""

    name_part: str = ""
    limit: int = 1000
    marker: str = ""
    hosts: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Totals:
    """Sums over all nodes."""

    count: int
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_used: int
    disk_available_least_gb: int
    running_guests: int


def list_services(context: RequestContext, *, host: str = "", binary: str = "") -> Page[ServiceView]:
    """Return services of all cells by cell, host and binary. Hosts of a cell that is down are listed as not known."""
    wanted = Q()
    if host:
        wanted &= Q(host=host)
    if binary:
        wanted &= Q(binary=binary)
    found = _ask(lambda alias, number: [service_view(row, alias, number) for row in services_in(alias).filter(wanted)])
    items = [view for alias in sorted(found.answers) for view in found.answers[alias]]
    if found.failures and binary in ("", COMPUTE):
        items += _unheard(list(found.failures), host)
    return Page(items, missing_cells=found.failures)


def get_service(context: RequestContext, ref: str) -> ServiceView:
    """Return a service by uuid, or by number for old clients.

    Raises NotFound, or CellUnavailable when it may be in a cell that is down.
    """
    found = list_services(context)
    for service in found.items:
        if ref in (service.uuid, str(service.number)) and service.is_known:
            return service
    if found.missing_cells:
        raise CellUnavailable(f"The service may be in a cell that does not answer: {', '.join(found.missing_cells)}.")
    raise NotFound(f"Service {ref} could not be found.")


def list_hypervisors(context: RequestContext, query: HypervisorQuery) -> Page[HypervisorView]:
    """Return nodes of all cells by name and uuid. Only those of the page are read in full.

    Raises NotFound for an unknown marker.
    """
    known = _ask(lambda alias, number: _keys_in(alias, number, query.hosts))
    keys = sorted(key for found in known.answers.values() for key in found)
    start = _after(keys, query.marker) if query.marker else 0
    wanted = [key for key in keys[start:] if query.name_part in key.node]
    uuids: dict[str, list[str]] = {}
    for key in wanted[: query.limit]:
        uuids.setdefault(key.cell, []).append(key.uuid)
    found = _ask(lambda alias, number: _nodes_in(alias, number, uuids[alias]), uuids)
    rows = sorted((view for views in found.answers.values() for view in views), key=lambda view: (view.node, view.uuid))
    missing = {**known.failures, **found.failures}
    return Page(rows, has_more=len(wanted) > query.limit, missing_cells=missing)


def get_hypervisor(context: RequestContext, ref: str) -> HypervisorView:
    """Return a node by uuid, or by number for old clients.

    Raises NotFound, or CellUnavailable when it may be in a cell that is down.
    """
    found = list_hypervisors(context, HypervisorQuery())
    for view in found.items:
        if ref in (view.uuid, str(view.number)):
            return view
    if found.missing_cells:
        raise CellUnavailable(f"The node may be in a cell that does not answer: {', '.join(found.missing_cells)}.")
    raise NotFound(f"Compute host {ref} could not be found.")


def update_service(context: RequestContext, service: ServiceView, **values: Any) -> ServiceView:
    """Set `is_disabled`, `disabled_reason`, `is_forced_down` or `maintenance_note`. Return the updated service.

    Enabling a service clears its note.
    """
    if values.get("is_disabled") is False:
        values["maintenance_note"] = ""
    with write_tx(service.cell):
        services_in(service.cell).filter(uuid=service.uuid).update(**values)
        nodes = list(ComputeNode.objects.using(service.cell).filter(host=service.host))
        for node in nodes:
            events.append(service.cell, events.about_host(service.host), "host.updated", {"node": node.node, **values})
    if "is_disabled" in values:
        traits.mark([node.uuid for node in nodes], traits.DISABLED, is_on=values["is_disabled"])
    return get_service(context, service.uuid)


def instances_on(context: RequestContext, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (uuid, name) of the instances on each of these hosts."""

    def ask(alias: str, number: int) -> list[tuple[str, str, str]]:
        rows = Instance.objects.using(alias).alive().filter(host__in=names).order_by("created_at", "uuid")
        return [(row.host or "", str(row.uuid), row.name) for row in rows]

    found: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for rows in _ask(ask).answers.values():
        for host, uuid, name in rows:
            found[host].append((uuid, name))
    return found


@dataclass(frozen=True, slots=True)
class HostShare:
    """Resources of a host, or those that some of its servers use. `name` says which."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int


def shares(context: RequestContext, host: str) -> list[HostShare]:
    """Return a host's total, its usage, the sum of its servers' flavors, and that sum for each project."""
    nodes = list_hypervisors(context, HypervisorQuery(hosts=(host,))).items

    def ask(alias: str, number: int) -> list[tuple[str, dict[str, Any]]]:
        return list(Instance.objects.using(alias).alive().filter(host=host).values_list("project_id", "flavor"))

    owned = [row for rows in _ask(ask).answers.values() for row in rows]
    projects = sorted({project_id for project_id, _ in owned})
    return [
        HostShare("(total)", *(sum(getattr(node, name) for node in nodes) for name in _AMOUNTS)),
        HostShare("(used_now)", *(sum(getattr(node, f"{name}_used") for node in nodes) for name in _AMOUNTS)),
        _share("(used_max)", [flavor for _, flavor in owned]),
        *(_share(project_id, [flavor for owner, flavor in owned if owner == project_id]) for project_id in projects),
    ]


_AMOUNTS = ("vcpus", "memory_mb", "disk_gb")


def _share(name: str, flavors: Sequence[Mapping[str, Any]]) -> HostShare:
    return HostShare(
        name,
        sum(flavor.get("vcpus", 0) for flavor in flavors),
        sum(flavor.get("memory_mb", 0) for flavor in flavors),
        sum(flavor.get("root_gb", 0) + flavor.get("ephemeral_gb", 0) for flavor in flavors),
    )


def totals(context: RequestContext) -> Totals:
    """Return the sums over all nodes of the cells that respond."""
    rows = list_hypervisors(context, HypervisorQuery(limit=2**31)).items
    return Totals(
        count=len(rows),
        disk_available_least_gb=sum(row.disk_available_least_gb or 0 for row in rows),
        **{name: sum(getattr(row, name) for row in rows) for name in _SUMMED},
    )


_SUMMED = ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "disk_gb", "disk_gb_used", "running_guests")


def services_in(alias: str) -> Any:
    """Return services of one cell. Each has `is_fresh`: it has reported recently, by the database's clock."""
    fresh = ExpressionWrapper(_heard(), output_field=BooleanField())
    return Service.objects.using(alias).annotate(is_fresh=fresh).order_by("host", "binary")


def _heard() -> Q:
    return Q(last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS))


# Flags of a host's service for lists of instances, as one number.
_FRESH, _FORCED_DOWN, _DISABLED, _SIMULATED = 1, 2, 4, 8


def flags_in(alias: str) -> Any:
    """Return compute services of one cell, each with `flags` for `trait_of_flags`."""
    conditions = {
        _FRESH: _heard(),
        _FORCED_DOWN: Q(is_forced_down=True),
        _DISABLED: Q(is_disabled=True),
        _SIMULATED: Q(is_simulated=True),
    }
    flags = [Case(When(condition, then=flag), default=0) for flag, condition in conditions.items()]
    return Service.objects.using(alias).filter(binary=COMPUTE).annotate(flags=sum(flags[1:], start=flags[0]))


def trait_of_flags(flags: int | None) -> tuple[str, bool]:
    """Return the Compute API's host status of an instance, and whether the host is simulated. None means no service."""
    if flags is None:
        return "UNKNOWN", False
    word = _status(bool(flags & _FORCED_DOWN), bool(flags & _DISABLED), bool(flags & _FRESH))
    return word, bool(flags & _SIMULATED)


def service_view(row: Any, alias: str, cell_number: int) -> ServiceView:
    """Convert a row of `services_in` to a view."""
    return ServiceView(
        number=row.pk * CELL_STRIDE + cell_number,
        uuid=str(row.uuid),
        binary=row.binary,
        host=row.host,
        cell=alias,
        zone=row.availability_zone if row.binary == COMPUTE else "internal",
        is_up=bool(row.is_fresh) and not row.is_forced_down,
        is_disabled=row.is_disabled,
        disabled_reason=row.disabled_reason,
        maintenance_note=row.maintenance_note,
        is_forced_down=row.is_forced_down,
        is_simulated=row.is_simulated,
        version=row.version,
        last_seen_at=row.last_seen_at,
    )


def host_status(service: ServiceView | None) -> str:
    """Return the Compute API's host status of an instance."""
    return _status(service.is_forced_down, service.is_disabled, service.is_up) if service else "UNKNOWN"


def _status(is_forced_down: bool, is_disabled: bool, is_up: bool) -> str:
    if is_forced_down:
        return "DOWN"
    if is_disabled:
        return "MAINTENANCE"
    return "UP" if is_up else "UNKNOWN"


def _ask(ask: Callable[[str, int], list[A]], only: Container[str] | None = None) -> GatherResult[list[A]]:
    """Query every cell, or only some, with its alias and its number."""
    numbers = dict(CellMapping.objects.values_list("name", "pk"))
    requested = [alias for alias in cell_aliases() if alias in numbers and (only is None or alias in only)]
    return scatter_gather(lambda alias: ask(alias, numbers[alias]), requested)


def _unheard(cells: Sequence[str], host: str) -> list[ServiceView]:
    rows = HostMapping.objects.filter(cell__name__in=cells).select_related("cell").order_by("host")
    if host:
        rows = rows.filter(host=host)
    return [_unknown(row.host, row.cell.name) for row in rows]


def _unknown(host: str, cell: str) -> ServiceView:
    return ServiceView(
        number=0,
        uuid="",
        binary=COMPUTE,
        host=host,
        cell=cell,
        zone="",
        is_up=False,
        is_disabled=False,
        disabled_reason=None,
        is_forced_down=False,
        is_simulated=False,
        version=0,
        last_seen_at=None,
        is_known=False,
    )


class _Key(NamedTuple):
    """Sort key of a node among all nodes, and its cell."""

    node: str
    uuid: str
    number: int
    cell: str


def _keys_in(alias: str, cell_number: int, names: Sequence[str]) -> list[_Key]:
    """Return the keys of a cell's nodes. With `names`, only those of these hosts."""
    wanted = Q(host__in=names) if names else Q()
    rows = ComputeNode.objects.using(alias).filter(wanted).values_list("node", "uuid", "pk")
    return [_Key(node, str(uuid), number * CELL_STRIDE + cell_number, alias) for node, uuid, number in rows]


def _nodes_in(alias: str, number: int, uuids: Sequence[str]) -> list[HypervisorView]:
    """Return these nodes of a cell."""
    nodes = list(ComputeNode.objects.using(alias).filter(uuid__in=uuids))
    computes = services_in(alias).filter(binary=COMPUTE, host__in={node.host for node in nodes})
    services = {row.host: service_view(row, alias, number) for row in computes}
    amounts: dict[str, dict[str, tuple[int, int]]] = {}
    stored = ProviderInventory.objects.filter(provider__uuid__in=[node.uuid for node in nodes])
    for uuid, name, total, used in stored.values_list("provider__uuid", "resource_class", "total", "used"):
        amounts.setdefault(str(uuid), {})[name] = (total, used)
    return [
        _node_view(node, services.get(node.host) or _unknown(node.host, alias), amounts.get(str(node.uuid), {}), number)
        for node in nodes
    ]


def _node_view(
    node: ComputeNode, service: ServiceView, amounts: Mapping[str, tuple[int, int]], cell_number: int
) -> HypervisorView:
    def amount(resource_class: str) -> tuple[int, int]:
        reported = node.report.get("inventory", {}).get(resource_class, {}).get("total", 0)
        return amounts.get(resource_class, (reported, 0))

    vcpus, memory, disk = amount("VCPU"), amount("MEMORY_MB"), amount("DISK_GB")
    return HypervisorView(
        number=node.pk * CELL_STRIDE + cell_number,
        uuid=str(node.uuid),
        node=node.node,
        driver=node.driver,
        is_simulated=node.is_simulated,
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        host_ip=node.host_ip,
        service=service,
        vcpus=vcpus[0],
        vcpus_used=vcpus[1],
        memory_mb=memory[0],
        memory_mb_used=memory[1],
        disk_gb=disk[0],
        disk_gb_used=disk[1],
        disk_available_least_gb=node.report.get("disk_available_least_gb"),
        running_guests=node.running_guests,
        cpu_info=node.report.get("cpu_info", {}),
        booted_at=node.report.get("capabilities", {}).get(BOOTED_AT),
    )


def _after(rows: Sequence[_Key], marker: str) -> int:
    wanted = str(uuid_or_none(marker) or marker)
    for index, row in enumerate(rows):
        if wanted in (row.uuid, str(row.number)):
            return index + 1
    raise NotFound(f"Marker {marker} could not be found.")
