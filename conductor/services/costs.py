"""What servers cost: hours × amounts × the operator's prices, line by line, so that a sum can be added up again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.conf import settings

from conductor.services.usage import ServerUsage

CENT = Decimal("0.0001")
PRICED = ("vcpu", "memory_gb", "disk_gb")
MONTH_HOURS = 730


@dataclass(frozen=True)
class Prices:
    """Per hour: a vCPU, a GB of memory, a GB of disk. `currency` "" says that nothing has a price here."""

    currency: str
    vcpu: Decimal
    memory_gb: Decimal
    disk_gb: Decimal

    def per_hour(self, *, vcpus: int, memory_mb: int, disk_gb: int) -> Decimal:
        """What a server of this size costs in an hour."""
        return vcpus * self.vcpu + Decimal(memory_mb) / 1024 * self.memory_gb + disk_gb * self.disk_gb


@dataclass(frozen=True)
class CostLine:
    """One server of a period: quantity × rate × time. `cost` is rounded, and sums are sums of what is rounded."""

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


def prices() -> Prices | None:
    """The operator's prices; None where there are none."""
    given: Mapping[str, Any] = settings.NOVELLA_PRICES
    if not given.get("currency"):
        return None
    rates = {name: Decimal(str(given.get(name, 0))) for name in PRICED}
    return Prices(str(given["currency"]), **rates)


def lines(servers: Iterable[ServerUsage], rates: Prices | None) -> list[CostLine]:
    """A line for each server."""
    return [CostLine(server, _cost(server, rates)) for server in servers]


def _cost(server: ServerUsage, rates: Prices | None) -> Decimal:
    if rates is None:
        return Decimal(0)
    hourly = rates.per_hour(vcpus=server.vcpus, memory_mb=server.memory_mb, disk_gb=server.disk_gb)
    return (Decimal(str(server.hours)) * hourly).quantize(CENT, ROUND_HALF_UP)
