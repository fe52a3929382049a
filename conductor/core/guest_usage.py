"""Resource usage of a guest: six numbers, summed from its driver's diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NANOSECONDS = 1_000_000_000
# The order of the values in messages and rows. New names are only added at the end.
NAMES = ("cpu_seconds", "memory_mb", "read_bytes", "written_bytes", "received_bytes", "sent_bytes")
# Name of the number, the list in the diagnostics, and the name in its entries.
SUMS = (
    ("read_bytes", "disks", "read_bytes"),
    ("written_bytes", "disks", "write_bytes"),
    ("received_bytes", "nics", "rx_octets"),
    ("sent_bytes", "nics", "tx_octets"),
)


def usage_of(diagnostics: Mapping[str, Any]) -> dict[str, float]:
    """Return the usage by name from the result of `ComputeDriver.diagnostics`. Values that the driver does not count
    are left out.
    """
    times = [cpu["time"] for cpu in diagnostics.get("cpus", ()) if cpu.get("time") is not None]
    sums = {name: _sum(diagnostics.get(kind, ()), theirs) for name, kind, theirs in SUMS}
    usage: dict[str, float] = {name: amount for name, amount in sums.items() if amount is not None}
    usage |= {"cpu_seconds": sum(times) / NANOSECONDS} if times else {}
    memory = diagnostics.get("memory", {}).get("used")
    return usage if memory is None else usage | {"memory_mb": memory}


def pack_usage(usage: Mapping[str, float]) -> list[float | None]:
    """Return the values in the order of NAMES, so that messages about many guests repeat no names."""
    return [round(usage[name], 2) if name in usage else None for name in NAMES]


def unpack_usage(values: Iterable[float | None]) -> dict[str, float]:
    """Return the usage by name from values in the order of NAMES. Names that an older host does not know are left
    out.
    """
    return {name: value for name, value in zip(NAMES, values, strict=False) if value is not None}


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    counted = [row[name] for row in rows if row.get(name) is not None]
    return sum(counted) if counted else None
