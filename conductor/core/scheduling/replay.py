"""Full replay of a decision: every filter judges every host, not only until the first filter that rejects it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import Placement, shortfall_of
from conductor.core.scheduling.filtering import PluginFault, Rows, Rules, ask, describe, timed_verdict
from conductor.core.scheduling.nearest import by_distance
from conductor.core.scheduling.select import Pipeline, decide, links_of
from conductor.core.scheduling.watching import Watch

PASSED, REJECTED, FAILED = "pass", "reject", "error"
NEAREST_KEPT = 10


@dataclass(frozen=True, slots=True)
class ReplayedCell:
    """One filter's verdict on one host. With an `error` the filter failed, and the operator's rule was applied."""

    filter: str
    outcome: str
    reason: str = ""
    need: str = ""
    have: str = ""


@dataclass(frozen=True, slots=True)
class ReplayedHost:
    """One host with the verdicts of all filters, in their order; `misses` of them reject it."""

    host: str
    node: str
    cell: str
    zone: str
    misses: int
    cells: tuple[ReplayedCell, ...]
    shortfall: float | None = None


@dataclass(frozen=True)
class Replay:
    """The masks of all filters over all hosts: `masks[i][row]` is whether filter i lets the host pass."""

    hosts: HostTable
    spec: RequestSpec
    filters: tuple[Filter, ...]
    masks: tuple[Mask, ...]
    faults: tuple[PluginFault, ...] = ()
    failed: frozenset[str] = field(default_factory=frozenset)
    aside: Watch = field(default_factory=lambda: Watch(Rules()), compare=False, repr=False)  # for reasons

    @property
    def misses(self) -> NDArray[np.intp]:
        """Return how many filters reject each host."""
        against: NDArray[np.intp] = np.zeros(len(self.hosts), np.intp)
        for mask in self.masks:
            against += ~mask
        return against

    def counts(self) -> list[dict[str, Any]]:
        """Return, per filter, how many hosts it rejects, and how many of them no other filter rejects."""
        alone = self.misses == 1
        return [
            {
                "filter": one.name,
                "rejected": int(np.count_nonzero(~mask)),
                "alone": int(np.count_nonzero(~mask & alone)),
            }
            for one, mask in zip(self.filters, self.masks, strict=True)
        ]

    def order(self) -> Rows:
        """Return the rows with the fewest misses first, then by name."""
        return np.lexsort((self.hosts.names, self.misses))

    def row(self, row: int) -> ReplayedHost:
        """Return one host with every filter's verdict. Filters run once more to get the reasons."""
        state = self.hosts.states[row]
        cells = tuple(self._cell(index, row) for index in range(len(self.filters)))
        lacks_room = any(isinstance(one, Placement) and not mask[row] for one, mask in self._pairs())
        shortfall = shortfall_of(state, self.spec) if lacks_room else 0.0
        return ReplayedHost(
            host=state.host,
            node=state.node,
            cell=state.cell,
            zone=state.availability_zone,
            misses=sum(not mask[row] for mask in self.masks),
            cells=cells,
            shortfall=round(shortfall, 4) if shortfall > 0 else None,
        )

    def nearest(self, most: int = NEAREST_KEPT) -> list[ReplayedHost]:
        """Return hosts that one or two filters reject: first those of one filter, the smallest shortfall first."""
        misses = self.misses
        found: list[ReplayedHost] = []
        for count in (1, 2):
            rows = np.flatnonzero(misses == count)
            if not len(rows):
                continue
            first = np.argmax([~mask[rows] for mask in self.masks], axis=0)  # the first filter that rejects it
            places = by_distance(self.hosts, self.spec, rows, first, self.filters)
            found += [self.row(int(rows[place])) for place in places[: most - len(found)]]
        return found

    def _cell(self, index: int, row: int) -> ReplayedCell:
        one, passes = self.filters[index], bool(self.masks[index][row])
        if passes and one.name not in self.failed:
            return ReplayedCell(one.name, PASSED)
        try:
            verdict = timed_verdict(one, self.hosts, self.spec, row, self.aside)
        except Exception as error:
            taken = "let pass" if passes else "rejected"
            return ReplayedCell(one.name, FAILED, f"the filter failed ({describe(error)}): {taken}")
        if passes:
            return ReplayedCell(one.name, PASSED)
        return ReplayedCell(
            one.name, REJECTED, verdict.reason or message("reject.no_reason"), verdict.need, verdict.have
        )

    def _pairs(self) -> Sequence[tuple[Filter, Mask]]:
        return list(zip(self.filters, self.masks, strict=True))


def replay(hosts: HostTable, spec: RequestSpec, pipeline: Pipeline) -> Replay:
    """Run every filter of the chain on every host. Raises Invalid for needs that cannot be read, and nothing else."""
    filters = links_of(hosts, spec, pipeline)
    everyone = hosts.everyone
    masks: list[Mask] = []
    faults: list[PluginFault] = []
    watch = Watch(pipeline.rules)
    for one in filters:
        mask, found = ask(one, hosts, spec, passing=everyone, rules=pipeline.rules, watch=watch)
        masks.append(mask)
        faults += found
    failed = frozenset(fault.plugin for fault in faults)
    return Replay(hosts, spec, filters, tuple(masks), tuple(faults), failed, Watch(pipeline.rules))


@dataclass(frozen=True, slots=True)
class HostRank:
    """Rank of a host among those that fit, from 1, and its weight by each weigher."""

    rank: int
    of: int
    total: float
    parts: tuple[dict[str, Any], ...] = ()


def place_of(hosts: HostTable, spec: RequestSpec, pipeline: Pipeline, row: int) -> HostRank | None:
    """Return the rank of the host in `row`. None where the host does not fit. A single host has no weights."""
    shown = decide(hosts, spec, ["asked"], pipeline=pipeline, seed=0).shown
    if not shown.filtering.passing[row]:
        return None
    totals = shown.weighing.totals
    parts = []
    for part in shown.weighing.parts:
        raw, normalized, multiplier = part.of(row)
        weight = normalized * multiplier
        parts.append(
            {
                "weigher": part.weigher,
                "raw": raw,
                "normalized": normalized,
                "multiplier": multiplier,
                "weight": weight,
            }
        )
    rank = 1 + int(np.count_nonzero(totals > totals[row]))
    return HostRank(rank, shown.weighing.count, float(totals[row]), tuple(parts))
