"""Summary of all hosts of all cells: few queries per cell, however many hosts there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from conductor.api_db.models import Aggregate, AggregateHost, HostMapping
from conductor.cell_db.models import ComputeNode
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.phrases import phrase
from conductor.db.transactions import database_time
from conductor.journal.models import WorkflowRun
from conductor.placement.models import ProviderInventory, ResourceProvider
from conductor.services.fleet import drains
from conductor.services.hosts import hosts
from conductor.services.hosts.aggregate_zones import DEFAULT_ZONE, ZONE_KEY

UP, DOWN, DRAINING, CLOSED, UNKNOWN = "up", "down", "draining", "closed", "unknown"
STATES = (UP, DRAINING, CLOSED, DOWN, UNKNOWN)
CLASSES: Mapping[str, str] = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


@dataclass(frozen=True, slots=True)
class FleetAmount:
    """Capacity of one resource, with overcommit, and its used part."""

    total: float = 0.0
    used: float = 0.0

    @property
    def share(self) -> float:
        return self.used / self.total if self.total > 0 else 0.0

    def __add__(self, other: FleetAmount) -> FleetAmount:
        return FleetAmount(self.total + other.total, self.used + other.used)


NOTHING = FleetAmount()


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host. `age_seconds` is the age of its newest report; None where its cell is down."""

    name: str
    cell: str
    zone: str
    state: str
    reason: str = ""
    aggregates: tuple[str, ...] = ()
    is_simulated: bool = False
    guests: int = 0
    failed_builds: int = 0
    age_seconds: float | None = None
    vcpus: FleetAmount = NOTHING
    memory_mb: FleetAmount = NOTHING
    disk_gb: FleetAmount = NOTHING


@dataclass(frozen=True)
class FleetOverview:
    """Every host, by cell and name, and the cells that are down."""

    hosts: list[FleetHost]
    missing_cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sum:
    """Sum of some hosts: how many are in each state, and their resources. Only hosts that are up count as capacity."""

    count: int
    states: Mapping[str, int]
    guests: int
    vcpus: FleetAmount
    memory_mb: FleetAmount
    disk_gb: FleetAmount


def survey(context: RequestContext) -> FleetOverview:
    """Return all hosts. Raises Forbidden for callers other than operators."""
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see the fleet."))
    groups = _Groups.read()
    amounts = _amounts()
    found = scatter_gather(lambda alias: _hosts_in(alias, groups, amounts), cell_aliases())
    rows = [host for rows in found.answers.values() for host in rows]
    if found.failures:
        down = HostMapping.objects.filter(cell__name__in=list(found.failures)).values_list("host", "cell__name")
        rows += [
            FleetHost(host, cell, groups.zone(host, DEFAULT_ZONE), UNKNOWN, "its cell doesn't respond", groups.of(host))
            for host, cell in down
        ]
    return FleetOverview(sorted(rows, key=lambda host: (host.cell, host.zone, host.name)), found.failures)


def total(found: Iterable[FleetHost]) -> Sum:
    """Sum up these hosts."""
    hosts_found = list(found)
    states = dict.fromkeys(STATES, 0) | Counter(host.state for host in hosts_found)
    up = [host for host in hosts_found if host.state == UP]
    amounts = {name: _sum([getattr(host, name) for host in up]) for name in CLASSES.values()}
    return Sum(len(hosts_found), states, sum(host.guests for host in hosts_found), **amounts)


def _sum(amounts: Sequence[FleetAmount]) -> FleetAmount:
    return FleetAmount(sum(one.total for one in amounts), sum(one.used for one in amounts))


_OF_GROUP = ("pk", "name", "metadata")


@dataclass(frozen=True)
class _Groups:
    """The aggregates of each host, and its availability zone from them."""

    names: Mapping[str, list[str]]
    zones: Mapping[str, str]

    @classmethod
    def read(cls) -> _Groups:
        names: dict[str, list[str]] = {}
        zones: dict[str, str] = {}
        known = {pk: (name, metadata.get(ZONE_KEY)) for pk, name, metadata in Aggregate.objects.values_list(*_OF_GROUP)}
        rows = AggregateHost.objects.order_by("aggregate__name").values_list("host", "aggregate_id")
        for host, pk in rows:  # many hosts, few aggregates: those are read once
            name, zone = known.get(pk, ("", None))
            if name:
                names.setdefault(host, []).append(name)
            if zone:
                zones[host] = min(zones.get(host, zone), zone)
        return cls(names, zones)

    def of(self, host: str) -> tuple[str, ...]:
        return tuple(self.names.get(host, ()))

    def zone(self, host: str, otherwise: str) -> str:
        return self.zones.get(host, otherwise)


def _amounts() -> dict[Any, dict[str, FleetAmount]]:
    """Return placement's amounts of VCPU, MEMORY_MB and DISK_GB by provider, in two queries for the whole fleet."""
    found: dict[int, dict[str, FleetAmount]] = {}
    rows = ProviderInventory.objects.filter(resource_class__in=CLASSES).values_list(
        "provider_id", "resource_class", "total", "reserved", "allocation_ratio", "used"
    )
    for pk, name, total_amount, reserved, ratio, used in rows:
        found.setdefault(pk, {})[CLASSES[name]] = FleetAmount((total_amount - reserved) * ratio, used)
    # read once each, as they take longer to read than the amounts
    uuids = ResourceProvider.objects.values_list("pk", "uuid")
    return {uuid: found[pk] for pk, uuid in uuids if pk in found}


def _hosts_in(alias: str, groups: _Groups, amounts: Mapping[Any, Mapping[str, FleetAmount]]) -> list[FleetHost]:
    now = database_time(alias)
    live = WorkflowRun.objects.using(alias).live().filter(flow=drains.FLOW)
    drained = set(live.values_list("instance_name", flat=True))  # a drain has the name of its host
    found = {
        row["host"]: _host(row, alias, groups, drained, now)
        for row in hosts.services_in(alias).filter(binary=hosts.COMPUTE).values(*_COLUMNS)
    }
    nodes = ComputeNode.objects.using(alias).values_list("host", "uuid", "running_guests", "failed_builds")
    for host, uuid, guests, failed in nodes:
        if host in found:
            found[host] = _with_node(found[host], amounts.get(uuid, {}), guests, failed)
    return list(found.values())


_COLUMNS = (
    "host", "availability_zone", "is_fresh", "is_disabled", "disabled_reason", "is_forced_down", "is_simulated",
    "last_seen_at",
)  # fmt: skip


def _host(row: Mapping[str, Any], alias: str, groups: _Groups, drained: set[str], now: datetime) -> FleetHost:
    state = next(name for name, holds in _RULES if holds(row, drained))
    reason = "an operator says so" if row["is_forced_down"] else row["disabled_reason"] or ""
    return FleetHost(
        name=row["host"],
        cell=alias,
        zone=groups.zone(row["host"], row["availability_zone"] or DEFAULT_ZONE),
        state=state,
        reason=reason if state != UP else "",
        aggregates=groups.of(row["host"]),
        is_simulated=row["is_simulated"],
        age_seconds=max(0.0, (now - row["last_seen_at"]).total_seconds()),
    )


Rule = Callable[[Mapping[str, Any], set[str]], bool]
# The first match is the state. A host that is down and disabled is shown as down.
_RULES: tuple[tuple[str, Rule], ...] = (
    (DOWN, lambda row, drained: row["is_forced_down"] or not row["is_fresh"]),
    (DRAINING, lambda row, drained: row["host"] in drained),
    (CLOSED, lambda row, drained: row["is_disabled"]),
    (UP, lambda row, drained: True),
)


def _with_node(host: FleetHost, amounts: Mapping[str, FleetAmount], guests: int, failed: int) -> FleetHost:
    """Add a node's resources to its host, which may have several nodes."""
    sums = {name: getattr(host, name) + amounts.get(name, NOTHING) for name in CLASSES.values()}
    return replace(host, guests=host.guests + guests, failed_builds=host.failed_builds + failed, **sums)
