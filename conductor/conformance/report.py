"""Conformance report: the results of tests, the levels that a driver reaches, and their JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from conductor.core.compute_driver import CAPABILITIES

VERSION = 1  # of the report: an additional field does not change it
KEPT, BROKEN, NOT_OFFERED = "kept", "broken", "not offered"
NONE, CORE, MIGRATION, SNAPSHOT, FULL = "none", "core", "migration", "snapshot", "full"
# Capabilities that a level requires, from the lowest; all their tests, and those of `core`, must pass.
LEVELS: Mapping[str, frozenset[str]] = {
    CORE: frozenset(),
    MIGRATION: frozenset({"migrate", "live_migrate"}),
    SNAPSHOT: frozenset({"snapshot"}),
    FULL: frozenset(CAPABILITIES),
}


@dataclass(frozen=True)
class Law:
    """One test: its result, the capabilities that it covers, and why it failed."""

    name: str
    outcome: str
    capabilities: tuple[str, ...] = ()
    seconds: float = 0.0
    why: str = ""


def levels(laws: Sequence[Law], offered: Collection[str]) -> list[str]:
    """Return the levels reached, from the lowest. None without a passed test."""
    broken = [law for law in laws if law.outcome == BROKEN]
    if not any(law.outcome == KEPT for law in laws) or any(not law.capabilities for law in broken):
        return []
    faulty = {name for law in broken for name in law.capabilities}
    return [
        level
        for level, needed in LEVELS.items()
        if needed <= set(offered) and not faulty & (faulty if level == FULL else needed)
    ]


def report(laws: Sequence[Law], offered: Collection[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report as JSON values. `about` describes the subject: driver, distribution, version, time."""
    reached = levels(laws, offered)
    counts = Counter(law.outcome for law in laws)
    return {
        "report": VERSION,
        **about,
        "level": reached[-1] if reached else NONE,
        "levels": reached,
        "capabilities": sorted(offered),
        "counts": {outcome: counts[outcome] for outcome in (KEPT, BROKEN, NOT_OFFERED)},
        "laws": [asdict(law) for law in laws],
    }
