"""What a guest has used, as few numbers: the sums that people ask about, out of what its driver tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NANOSECONDS = 1_000_000_000
# The order in which they travel and are kept. Names are only ever added at the end.
NAMES = ("cpu_seconds", "memory_mb", "read_bytes", "written_bytes", "received_bytes", "sent_bytes")
# Of what the driver counted: ours, the list that holds them, its name there.
SUMS = (
    ("read_bytes", "disks", "read_bytes"),
    ("written_bytes", "disks", "write_bytes"),
    ("received_bytes", "nics", "rx_octets"),
    ("sent_bytes", "nics", "tx_octets"),
)


def counters(told: Mapping[str, Any]) -> dict[str, float]:
    """All of a kind added up, of an answer of `ComputeDriver.diagnostics`; what nobody counted is left out."""
    used = [cpu["time"] for cpu in told.get("cpus", ()) if cpu.get("time") is not None]
    sums = {name: _sum(told.get(kind, ()), theirs) for name, kind, theirs in SUMS}
    found: dict[str, float] = {name: amount for name, amount in sums.items() if amount is not None}
    found |= {"cpu_seconds": sum(used) / NANOSECONDS} if used else {}
    memory = told.get("memory", {}).get("used")
    return found if memory is None else found | {"memory_mb": memory}


def packed(found: Mapping[str, float]) -> list[float | None]:
    """In the order of NAMES, for messages and rows: a thousand guests say each name once, here."""
    return [round(found[name], 2) if name in found else None for name in NAMES]


def unpacked(values: Iterable[float | None]) -> dict[str, float]:
    """What `packed` was given; names that an older host did not know are left out."""
    return {name: value for name, value in zip(NAMES, values, strict=False) if value is not None}


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    counted = [row[name] for row in rows if row.get(name) is not None]
    return sum(counted) if counted else None
