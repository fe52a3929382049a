"""Near misses: hosts that exactly one filter of the whole chain rejects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import CLASSES, Placement, shortfall_of
from conductor.core.scheduling.filtering import Rows, ask, timed_verdict
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.provider_answers import free_of
from conductor.core.scheduling.select import Round

MISSES_KEPT = 5


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A host that only one filter rejected. `shortfall` is the missing share of a need, where the need is an amount."""

    host: str
    cell: str
    rejected_by: str
    reason: str
    need: str
    have: str
    shortfall: float | None = None


def nearest_misses(shown: Round) -> tuple[tuple[NearMiss, ...], dict[str, int]]:
    """Return the nearest hosts, smallest shortfall first, and how many hosts each filter alone rejected.

    Every filter judges every host here, not only those that passed the filters before it.
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
    found = []
    for place in by_distance(shown.hosts, shown.spec, rows, missed_by[rows], filters)[:MISSES_KEPT]:
        row = int(rows[place])
        index = int(missed_by[row])
        state = shown.hosts.states[row]
        shortfall = shortfall_of(state, shown.spec) if isinstance(filters[index], Placement) else 0.0
        try:
            verdict = timed_verdict(filters[index], shown.hosts, shown.spec, row, shown.filtering.aside)
        except Exception:
            continue  # a filter that fails for a host makes no near miss
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


def by_distance(
    hosts: HostTable, spec: RequestSpec, rows: Rows, missed_by: Rows, filters: Sequence[Filter]
) -> NDArray[np.intp]:
    """Return positions in `rows`, nearest first: small shortfalls of room first, then by the filter that rejects.

    `missed_by` has the index of that filter for each row.
    """
    is_amount = np.array([isinstance(one, Placement) for one in filters], np.bool_)[missed_by]
    shortfalls = np.where(is_amount, _shortfalls(hosts, spec, rows), 0.0)
    return np.lexsort((rows, missed_by, shortfalls, shortfalls <= 0))


def _shortfalls(hosts: HostTable, spec: RequestSpec, rows: Rows) -> Column:
    """Return `shortfall_of` for many hosts."""
    worst: Column = np.full(len(rows), -np.inf)
    for name, amount in needs_of(spec).resources.items():
        if name in CLASSES:
            free = getattr(hosts, CLASSES[name][0])[rows]
        else:
            free = np.fromiter((free_of(hosts.states[row], name) for row in rows), np.float64, len(rows))
        np.maximum(worst, 1 - free / amount, out=worst)
    return worst
