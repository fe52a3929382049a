"""The hosts that almost fit: turned away by exactly one filter of the whole chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conductor.core.scheduling.filtering import Rows, ask, timed_verdict
from conductor.core.scheduling.links import Placement, shortfall_of
from conductor.core.scheduling.select import Round

MISSES_KEPT = 5


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A host that one filter alone turned away. `shortfall` is the lacking share of a need, where it is an amount."""

    host: str
    cell: str
    rejected_by: str
    reason: str
    need: str
    have: str
    shortfall: float | None = None


def nearest_misses(shown: Round) -> tuple[tuple[NearMiss, ...], dict[str, int]]:
    """The nearest hosts, smallest shortfall first, and how many hosts each filter alone turned away.

    Every filter is asked about every host here, not only about those that the filters before it let pass.
    """
    hosts, spec = shown.hosts, shown.spec
    misses = np.zeros(len(hosts), np.intp)
    missed_by = np.zeros(len(hosts), np.intp)
    filters = [stage.filter for stage in shown.filtering.stages]
    aside = shown.filtering.aside
    for index, one in enumerate(filters):
        mask, _ = ask(one, hosts, spec, passing=misses < 2, rules=aside.rules, watch=aside)
        misses[~mask] += 1
        missed_by[~mask] = index
    rows = np.flatnonzero(misses == 1)
    counts = np.bincount(missed_by[rows], minlength=len(filters))
    by_filter = {one.name: int(count) for one, count in zip(filters, counts, strict=True) if count}
    return tuple(_described(shown, rows, missed_by)), by_filter


def _described(shown: Round, rows: Rows, missed_by: Rows) -> list[NearMiss]:
    filters = [stage.filter for stage in shown.filtering.stages]
    ranked = []
    for row in map(int, rows):
        index = int(missed_by[row])
        is_amount = isinstance(filters[index], Placement)
        shortfall = shortfall_of(shown.hosts.states[row], shown.spec) if is_amount else 0.0
        ranked.append(((shortfall <= 0, shortfall, index, row), row, index))
    found = []
    for (_, shortfall, _, _), row, index in sorted(ranked)[:MISSES_KEPT]:
        state = shown.hosts.states[row]
        try:
            verdict = timed_verdict(filters[index], shown.hosts, shown.spec, row, shown.filtering.aside)
        except Exception:
            continue  # a filter that fails about a host is no near miss
        found.append(
            NearMiss(
                host=state.host,
                cell=state.cell,
                rejected_by=filters[index].name,
                reason=verdict.reason,
                need=verdict.need,
                have=verdict.have,
                shortfall=round(shortfall, 4) if shortfall > 0 else None,
            )
        )
    return found
