"""A decision asked again in full: every filter about every host, not only until the first that turns it away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.filtering import PluginFault, Rows, Rules, ask, describe, timed_verdict
from conductor.core.scheduling.links import Placement, shortfall_of
from conductor.core.scheduling.nearest import by_distance
from conductor.core.scheduling.select import Pipeline, decide, links_of
from conductor.core.scheduling.watching import Watch

PASSED, REJECTED, FAILED = "pass", "reject", "error"
NEAREST_KEPT = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """What one filter says of one host; `error` where it failed, and was taken as the operator's rule says."""

    filter: str
    outcome: str
    reason: str = ""
    need: str = ""
    have: str = ""


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host with the word of every filter, in their order. `misses` of them turn it away."""

    host: str
    node: str
    cell: str
    zone: str
    misses: int
    cells: tuple[Cell, ...]
    shortfall: float | None = None


@dataclass(frozen=True)
class Replay:
    """The masks of all filters over all hosts: `masks[i][row]` says whether filter i lets the host pass."""

    hosts: HostTable
    spec: RequestSpec
    filters: tuple[Filter, ...]
    masks: tuple[Mask, ...]
    faults: tuple[PluginFault, ...] = ()
    failed: frozenset[str] = field(default_factory=frozenset)
    aside: Watch = field(default_factory=lambda: Watch(Rules()), compare=False, repr=False)  # of the questions why

    @property
    def misses(self) -> NDArray[np.intp]:
        """How many filters turn each host away."""
        against: NDArray[np.intp] = np.zeros(len(self.hosts), np.intp)
        for mask in self.masks:
            against += ~mask
        return against

    def counts(self) -> list[dict[str, Any]]:
        """Per filter, how many hosts it turns away, and how many of them nothing else does."""
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
        """Rows with the fewest misses first, then by name."""
        return np.lexsort((self.hosts.names, self.misses))

    def row(self, row: int) -> HostRow:
        """One host with every filter's word. Filters are asked once more about why."""
        state = self.hosts.states[row]
        cells = tuple(self._cell(index, row) for index in range(len(self.filters)))
        lacks_room = any(isinstance(one, Placement) and not mask[row] for one, mask in self._pairs())
        shortfall = shortfall_of(state, self.spec) if lacks_room else 0.0
        return HostRow(
            host=state.host,
            node=state.node,
            cell=state.cell,
            zone=state.availability_zone,
            misses=sum(not mask[row] for mask in self.masks),
            cells=cells,
            shortfall=round(shortfall, 4) if shortfall > 0 else None,
        )

    def nearest(self, most: int = NEAREST_KEPT) -> list[HostRow]:
        """Hosts that one filter or two turn away: those of one first, the smallest shortfall first."""
        misses = self.misses
        found: list[HostRow] = []
        for count in (1, 2):
            rows = np.flatnonzero(misses == count)
            if not len(rows):
                continue
            first = np.argmax([~mask[rows] for mask in self.masks], axis=0)  # the first that turns it away
            places = by_distance(self.hosts, self.spec, rows, first, self.filters)
            found += [self.row(int(rows[place])) for place in places[: most - len(found)]]
        return found

    def _cell(self, index: int, row: int) -> Cell:
        one, passes = self.filters[index], bool(self.masks[index][row])
        if passes and one.name not in self.failed:
            return Cell(one.name, PASSED)
        try:
            verdict = timed_verdict(one, self.hosts, self.spec, row, self.aside)
        except Exception as error:
            taken = "let pass" if passes else "turned away"
            return Cell(one.name, FAILED, f"the filter failed ({describe(error)}): {taken}")
        if passes:
            return Cell(one.name, PASSED)
        return Cell(one.name, REJECTED, verdict.reason or "no reason given", verdict.need, verdict.have)

    def _pairs(self) -> Sequence[tuple[Filter, Mask]]:
        return list(zip(self.filters, self.masks, strict=True))


def replay(hosts: HostTable, spec: RequestSpec, pipeline: Pipeline) -> Replay:
    """Ask every filter of the chain about every host. Raises Invalid for needs that cannot be read, nothing else."""
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
class Place:
    """Where a host stands among those that fit: its rank from 1, and what each weigher gives it."""

    rank: int
    of: int
    total: float
    parts: tuple[dict[str, Any], ...] = ()


def place_of(hosts: HostTable, spec: RequestSpec, pipeline: Pipeline, row: int) -> Place | None:
    """The place of the host in `row`; None where it does not fit. A lone host has no weights."""
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
    return Place(rank, shown.weighing.count, float(totals[row]), tuple(parts))
