"""Costs of servers: hours × amounts × the operator's prices, line by line, so that a sum can be verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.conf import settings

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.services.billing import usage
from conductor.services.billing.usage import ServerUsage, UsageQuery

CENT = Decimal("0.0001")
PRICED = ("vcpu", "memory_gb", "disk_gb")
MONTH_HOURS = 730
SECONDS_PER_HOUR = 3600
MOST_ADDED_UP = 5000  # servers of a month; the usage page adds up more, as its reader expects to wait


@dataclass(frozen=True)
class Prices:
    """Prices per hour of a vCPU, a GB of memory and a GB of disk. `currency` is "" where nothing has a price."""

    currency: str
    vcpu: Decimal
    memory_gb: Decimal
    disk_gb: Decimal

    def per_hour(self, *, vcpus: int, memory_mb: int, disk_gb: int) -> Decimal:
        """Return the price of a server of this size per hour."""
        return vcpus * self.vcpu + Decimal(memory_mb) / 1024 * self.memory_gb + disk_gb * self.disk_gb


@dataclass(frozen=True)
class CostLine:
    """Cost of one server in a period: quantity × rate × time. `cost` is rounded, and sums are sums of rounded costs."""

    server: ServerUsage
    cost: Decimal

    @property
    def vcpu_hours(self) -> float:
        return self.server.hours * self.server.vcpus

    @property
    def memory_gb_hours(self) -> float:
        return self.server.hours * self.server.memory_mb / 1024

    @property
    def disk_gb_hours(self) -> float:
        return self.server.hours * self.server.disk_gb


@dataclass(frozen=True)
class Month:
    """A project's costs of the month until now, and their forecast. Amounts are in `prices.currency`.

    With `is_whole` false there were too many servers to add up, and there are no sums.
    """

    begins_at: datetime
    prices: Prices | None
    so_far: Decimal = Decimal(0)
    at_this_pace: Decimal = Decimal(0)
    last_month: Decimal = Decimal(0)
    server_hours: float = 0.0
    vcpu_hours: float = 0.0
    is_whole: bool = True
    missing_cells: Mapping[str, str] = field(default_factory=dict)


def this_month(context: RequestContext) -> Month:
    """Return the month of the current project, in UTC. Raises Forbidden for callers without a role in it."""
    if not context.is_admin and "reader" not in context.roles:
        raise Forbidden("You need a role in this project to see its usage.")
    now = usage.now()
    begin = month_of(now)
    before = month_of(begin - timedelta(days=1))
    rates = prices()
    month = usage.servers(context, UsageQuery(begin, now, context.project_id, MOST_ADDED_UP))
    last = usage.servers(context, UsageQuery(before, begin, context.project_id, MOST_ADDED_UP))
    missing = {**month.missing_cells, **last.missing_cells}
    if month.has_more or last.has_more:
        return Month(begin, rates, is_whole=False, missing_cells=missing)
    counted = lines(month.items, rates)
    so_far, at_this_pace = pace(counted, rates, now)
    return Month(
        begins_at=begin,
        prices=rates,
        so_far=so_far,
        at_this_pace=at_this_pace,
        last_month=sum((line.cost for line in lines(last.items, rates)), Decimal(0)),
        server_hours=sum(line.server.hours for line in counted),
        vcpu_hours=sum(line.vcpu_hours for line in counted),
        missing_cells=missing,
    )


def month_of(moment: datetime) -> datetime:
    """Return the beginning of a moment's month, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def pace(counted: Iterable[CostLine], rates: Prices | None, now: datetime) -> tuple[Decimal, Decimal]:
    """Return the cost of these lines of the month until `now`, and the forecast for its end if no server changes."""
    kept = list(counted)
    so_far = sum((line.cost for line in kept), Decimal(0))
    end = month_of(month_of(now) + timedelta(days=32))
    hours_left = Decimal((end - now).total_seconds()) / SECONDS_PER_HOUR
    return so_far, so_far + hours_left * _hourly((line.server for line in kept), rates)


def _hourly(servers: Iterable[ServerUsage], rates: Prices | None) -> Decimal:
    """Return the cost per hour of the servers that exist now."""
    if rates is None:
        return Decimal(0)
    there = [server for server in servers if server.ended_at is None and server.state != usage.TERMINATED]
    amounts = (
        rates.per_hour(vcpus=server.vcpus, memory_mb=server.memory_mb, disk_gb=server.disk_gb) for server in there
    )
    return sum(amounts, Decimal(0))


def prices() -> Prices | None:
    """Return the operator's prices. None where there are none."""
    given: Mapping[str, Any] = settings.NOVELLA_PRICES
    if not given.get("currency"):
        return None
    rates = {name: Decimal(str(given.get(name, 0))) for name in PRICED}
    return Prices(str(given["currency"]), **rates)


def lines(servers: Iterable[ServerUsage], rates: Prices | None) -> list[CostLine]:
    """Return a cost line for each server."""
    return [CostLine(server, _cost(server, rates)) for server in servers]


def _cost(server: ServerUsage, rates: Prices | None) -> Decimal:
    if rates is None:
        return Decimal(0)
    hourly = rates.per_hour(vcpus=server.vcpus, memory_mb=server.memory_mb, disk_gb=server.disk_gb)
    return (Decimal(str(server.hours)) * hourly).quantize(CENT, ROUND_HALF_UP)
