"""Places many equal servers of one request: all hosts are judged once, then only the host that was picked.

Each instance takes the same amounts on every host, so a host's numbers after more instances follow from those before.
The best hosts form the near set. As long as one of them outweighs all other hosts, whatever the change of the ranges of
normalisation, the other hosts are not computed again. Each pick is, bit for bit, the one that judging all hosts makes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import CLAIMED_COLUMNS, Column, HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import Placement
from conductor.core.scheduling.filtering import Rows
from conductor.core.scheduling.host_attributes import changes_with_instances
from conductor.core.scheduling.host_trees import rows_of
from conductor.core.scheduling.lookahead import FreeCapacity, LookaheadColumn, climb, is_exact
from conductor.core.scheduling.needs import Needs
from conductor.core.scheduling.provider_answers import COLUMNS, asks_several
from conductor.core.scheduling.weighing import OUT, Weighing, WeightTerm, share_ends, totals_of
from conductor.core.scheduling.working_table import with_more
from conductor.core.weigher import Weigher

NEAR_AT_LEAST = 64
NEAR_PER_PICK = 1
ROUNDING = 1e-12  # relative to each weigher's factor; above any rounding error of the sums
Number = Callable[[HostState, "InstanceShare", int], float]


class FilterUndecided(Exception):
    """A filter failed for a host; the general path handles failures."""


@dataclass(frozen=True, slots=True)
class InstanceShare:
    """The resources that one instance takes of a host, and the difference between its size and its claim."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    drift_vcpus: int
    drift_memory_mb: int
    drift_disk_gb: int

    @classmethod
    def of(cls, spec: RequestSpec, needs: Needs) -> InstanceShare:
        flavor, requested = spec.flavor, needs.resources
        vcpus, memory, disk = (requested.get(name, 0) for name in COLUMNS)
        root = flavor.root_gb + flavor.ephemeral_gb
        return cls(vcpus, memory, disk, flavor.vcpus - vcpus, flavor.memory_mb - memory, root - disk)


def _free_vcpus(host: HostState, share: InstanceShare, more: int) -> float:
    return (host.vcpus - host.reserved_vcpus) * host.cpu_ratio - (host.vcpus_used + more * share.vcpus)


def _unused_disk_mb(host: HostState, share: InstanceShare, more: int) -> float:
    least = host.unused_disk_gb  # both numbers shrink alike, so the smaller one stays the smaller one
    return (least - more * (share.disk_gb + share.drift_disk_gb)) * 1024


# The claimed columns of a host with some more instances, computed in the same order as in its state.
NUMBERS: Mapping[str, Number] = {
    "free_vcpus": _free_vcpus,
    "unused_vcpus": lambda host, share, more: (
        _free_vcpus(host, share, more) - (host.drift_vcpus + more * share.drift_vcpus)
    ),
    "free_memory_mb": lambda host, share, more: (
        (host.memory_mb - host.reserved_memory_mb) * host.ram_ratio - (host.memory_mb_used + more * share.memory_mb)
    ),
    "free_disk_gb": lambda host, share, more: (
        (host.disk_gb - host.reserved_disk_gb) * host.disk_ratio - (host.disk_gb_used + more * share.disk_gb)
    ),
    "unused_memory_mb": lambda host, share, more: (
        host.unused_memory_mb - more * (share.memory_mb + share.drift_memory_mb)
    ),
    "unused_disk_mb": _unused_disk_mb,
    "num_io_ops": lambda host, share, more: host.num_io_ops + more,
    "num_instances": lambda host, share, more: host.num_instances + more,
}


# The change of each column per instance, where it is a whole number.
STEPS: Mapping[str, Callable[[InstanceShare], int]] = {
    "free_vcpus": lambda share: -share.vcpus,
    "unused_vcpus": lambda share: -share.vcpus - share.drift_vcpus,
    "free_memory_mb": lambda share: -share.memory_mb,
    "free_disk_gb": lambda share: -share.disk_gb,
    "unused_memory_mb": lambda share: -share.memory_mb - share.drift_memory_mb,
    "unused_disk_mb": lambda share: -(share.disk_gb + share.drift_disk_gb) * 1024,
    "num_io_ops": lambda share: 1,
    "num_instances": lambda share: 1,
}


class _BatchVerdicts:
    """One weigher's numbers: for all hosts when the near set was chosen, and for the near hosts now."""

    def __init__(self, hosts: HostTable, weigher: Weigher, part: WeightTerm, name: str | None) -> None:
        self.hosts = hosts
        self.weigher = weigher
        self.name = name  # of the claimed column; None: instances do not change its numbers
        self.number = NUMBERS[name] if name else None
        self.all = self.then = self.near = part
        self._is_own = False
        self._far: tuple[float, float] | None = None

    def come_near(self, rows: Rows) -> None:
        factor = self.all.multiplier
        column = self.all.column[rows].astype(np.float64)
        factor = factor if isinstance(factor, float) else factor[rows]
        self.near = self.all._replace(column=column, multiplier=factor, own="")
        self.then, self._far = self.near, None

    def go_back(self, rows: Rows) -> None:
        """Write the numbers of the near hosts back into the column of all hosts."""
        column = self.all.column
        if self.number is not None:
            column = column if self._is_own else column.copy()
            self._is_own = True
            column[rows] = self.near.column
        self.all = self.near._replace(column=column, multiplier=self.all.multiplier)

    def rail(self, share: InstanceShare, candidates: Rows, far: Callable[[], Mask]) -> LookaheadColumn:
        """Return the weigher's rail for the candidates in the near set."""
        part, step = self.near, float(STEPS[self.name](share)) if self.name else 0.0
        factor = part.multiplier
        part = part._replace(
            column=part.column[candidates],
            multiplier=factor if isinstance(factor, float) else factor[candidates],
        )
        return LookaheadColumn(part, step, self._far_ends(far) if step else (np.nan, np.nan))

    def put(self, place: int, number: float, far: Callable[[], Mask]) -> bool:
        """Store a number, or NaN for a host that is no longer a candidate. Return whether the range changed."""
        column, (least, greatest) = self.near.column, self.near.ends
        before = float(column[place])
        column[place] = number
        low, high = (np.inf, OUT) if math.isnan(number) else (number, number)
        if before <= least < low or before >= greatest > high:
            ends = self._ends(far)
        else:
            ends = min(least, low), max(greatest, high)
        if ends == (least, greatest) or math.isnan(ends[0]):  # or no candidate is left
            return False
        measured = self.near.low, self.near.high
        low, high = share_ends(ends, self.weigher.minval, self.weigher.maxval)
        self.near = self.near._replace(low=low, high=high, is_beyond=ends[0] < low or ends[1] > high, ends=ends)
        return measured != (low, high)

    def _ends(self, far: Callable[[], Mask]) -> tuple[float, float]:
        least, greatest = self._far_ends(far)
        column = self.near.column
        return float(np.fmin(np.fmin.reduce(column), least)), float(np.fmax(np.fmax.reduce(column), greatest))

    def _far_ends(self, far: Callable[[], Mask]) -> tuple[float, float]:
        """Return the smallest and largest number outside the near set; NaN where it holds all."""
        if self._far is None:
            column, others = self.all.column, far()
            self._far = self.hosts.ends_of(column, others)
            if self._far is None:
                numbers = column[others]
                self._far = (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.nan, np.nan)
        return self._far

    @property
    def gain(self) -> float:
        """The largest possible rise of any host's weight by the change of the range alone."""
        then, now = self.then, self.near
        if (then.low, then.high) == (now.low, now.high):
            return 0.0
        points = (then.low, then.high, now.low, now.high)
        factor = now.multiplier
        most = abs(factor) if isinstance(factor, float) else float(np.abs(self.all.multiplier).max())
        return most * (max(abs(_share(now, point) - _share(then, point)) for point in points) + ROUNDING)


def _share(part: WeightTerm, number: float) -> float:
    if part.low == part.high:
        return 0.0
    return (min(max(number, part.low), part.high) - part.low) / (part.high - part.low)


class Batch:
    """State of the hosts while equal instances are placed on them, one by one."""

    def __init__(self, hosts: HostTable, spec: RequestSpec, needs: Needs, passing: Mask) -> None:
        self.hosts, self.spec, self.needs = hosts, spec, needs
        self.share = InstanceShare.of(spec, needs)
        wanted = [(column, needs.resources.get(name, 0)) for name, column in COLUMNS.items()]
        self.room = [(NUMBERS[column], amount) for column, amount in wanted if amount]
        self.wanted = [(column, amount) for column, amount in wanted if amount]
        self.passing = passing.copy()
        self.says: list[_BatchVerdicts] = []
        self.asked: list[Filter] = []  # besides placement
        self.taken = np.zeros(len(hosts), np.int64)
        self.picks: list[int] = []
        self._far: Mask | None = None
        self._is_exact: bool | None = None  # whether the numbers of the near hosts add up without rounding

    def place(self, totals: Column, count: int, draw: int | None) -> bool:
        """Place `count` instances. Return whether there were enough hosts.

        Args:
            totals: The weights for the first instance; shape (hosts,).
            draw: The first seed by which ties are drawn. None keeps their order.
        """
        while len(self.picks) < count:
            before = len(self.picks)
            self._stretch(totals, count, draw)
            if len(self.picks) == before:
                return False
            if len(self.picks) < count:
                totals = self.totals()
        return True

    def totals(self) -> Column:
        """Return the current weights."""
        if np.count_nonzero(self.passing) < 2:
            return np.where(self.passing, 0.0, OUT)
        return totals_of([say.all for say in self.says], self.passing)

    def _stretch(self, totals: Column, count: int, draw: int | None) -> None:
        """Place instances as long as the next host is in the near set."""
        rows, others = _nearest(totals, max(NEAR_AT_LEAST, NEAR_PER_PICK * (count - len(self.picks))))
        near = totals[rows]
        for say in self.says:
            say.come_near(rows)
        self._far = self._is_exact = None
        bound = others

        def far() -> Mask:
            if self._far is None:
                self._far = self.passing.copy()
                self._far[rows] = False
            return self._far

        alone, pause = 0, 1
        while len(self.picks) < count and len(near):
            if not alone and not self.asked:
                climbed = self._climb(rows, near, bound, count, far)
                pause = 1 if climbed > 1 else 2 * pause  # ties are drawn one by one: there it saves no time
                alone = pause
                if len(self.picks) == count:
                    break
            alone -= 1
            top = near.max()
            if top == OUT or top <= bound:
                break
            level = (near == top).nonzero()[0]
            place = int(level[_drawn(len(level), draw, len(self.picks))])
            if self._take(int(rows[place]), place, near, far):
                near = totals_of([say.near for say in self.says], self.passing[rows])
                bound = others + sum(say.gain for say in self.says)
        for say in self.says:
            say.go_back(rows)

    def _climb(self, rows: Rows, near: Column, bound: float, count: int, far: Callable[[], Mask]) -> int:
        """Make the next picks at once, as far as they are unambiguous. Return their number."""
        candidates = np.flatnonzero(near > OUT)
        chosen = rows[candidates]
        taken = self.taken[chosen]
        rooms = [
            FreeCapacity(getattr(self.hosts, name)[chosen] - taken * amount, amount) for name, amount in self.wanted
        ]
        rails = [say.rail(self.share, candidates, far) for say in self.says]
        if self._is_exact is None:  # exact numbers of a near set stay exact
            self._is_exact = is_exact([*(room.free for room in rooms), *(one.part.column for one in rails if one.step)])
        if not self._is_exact:
            return 0
        found = climb(near[candidates], rails, rooms, most=count - len(self.picks), bound=bound)
        if found is None:
            return 0
        picked = chosen[found.places].tolist()
        self.picks += picked
        self.taken[chosen] += found.counts
        for say, rail in zip(self.says, rails, strict=True):
            if rail.step:
                say.near.column[candidates] += found.counts * rail.step
        near[candidates] = found.weights
        return len(picked)

    def _take(self, row: int, place: int, near: Column, far: Callable[[], Mask]) -> bool:
        """Place one instance on the host. Return whether the weights of other hosts may have changed."""
        self.picks.append(row)
        self.taken[row] += 1
        more, host = int(self.taken[row]), self.hosts.states[row]
        is_out = not self._passes(host, more)
        is_new = False
        for say in self.says:
            if is_out:
                is_new |= say.put(place, np.nan, far)
            elif say.number is not None:
                is_new |= say.put(place, float(say.number(host, self.share, more)), far)
        if is_out:
            self.passing[row] = False
            near[place] = OUT
        elif not is_new:
            near[place] = sum((say.near.weight(place) for say in self.says), 0.0)
        return is_new

    def _passes(self, host: HostState, more: int) -> bool:
        if any(number(host, self.share, more) < amount for number, amount in self.room):
            return False
        if not self.asked:
            return True
        now = with_more(host, self.spec, self.needs, more)
        try:
            return all(one.host_passes(now, self.spec) for one in self.asked)
        except Exception as error:
            raise FilterUndecided from error


def _nearest(totals: Column, count: int) -> tuple[Rows, float]:
    """Return the rows of the heaviest candidates, at least `count` if possible, and the others' largest weight."""
    limit = OUT
    if count < len(totals):
        parted = np.partition(totals, len(totals) - count)
        limit = parted[len(totals) - count]
    if limit == OUT:
        return np.flatnonzero(totals > OUT), OUT
    is_near = totals >= limit
    others = parted[: len(totals) - count].max()
    if others == limit:  # ties with the last of them are near too
        others = totals.max(where=~is_near, initial=OUT)
    return np.flatnonzero(is_near), float(others)


def _drawn(count: int, seed: int | None, index: int) -> int:
    if count == 1 or seed is None:
        return 0
    return random.Random(seed + index).sample(range(count), 1)[0]


def batch_of(
    hosts: HostTable, spec: RequestSpec, needs: Needs, first: tuple[Mask, Weighing], plugins: Plugins
) -> Batch | None:
    """Return the batch after the first round. None where an instance changes more than its host's numbers.

    That is so where an instance changes other hosts (groups, shared providers), or takes different amounts by host.
    Weighers that ship and judge each host alone use the claimed columns, or values that instances do not change.
    """
    if not _is_plain(hosts, spec, needs):
        return None
    passing, weighing = first
    if any(one.compares_hosts for one in plugins.weighers):
        return None
    if len(weighing.parts) != len(plugins.weighers) or weighing.faults:
        return None
    batch = Batch(hosts, spec, needs, passing)
    for one in plugins.repeated:
        if not isinstance(one, Placement) and one.mask(hosts, spec) is not hosts.everyone:
            batch.asked.append(one)
    for weigher, part in zip(plugins.weighers, weighing.parts, strict=True):
        counts = not isinstance(part.multiplier, float) or part.multiplier
        if counts and not (part.low == part.high and part.column.strides == (0,)):
            batch.says.append(_BatchVerdicts(hosts, weigher, part, _name_of(part.column, hosts)))
    return batch


@dataclass(frozen=True, slots=True)
class Plugins:
    """The filters that run again for each instance, and the weighers."""

    repeated: Sequence[Filter]
    weighers: Sequence[Weigher]


def _is_plain(hosts: HostTable, spec: RequestSpec, needs: Needs) -> bool:
    return (
        len(needs.queries) == 1
        and needs.resources.keys() <= COLUMNS.keys()
        and not asks_several(needs.queries[0])
        and rows_of(hosts) is None
        and not any(map(changes_with_instances, spec.flavor.extra_specs))
    )


def _name_of(column: Column, hosts: HostTable) -> str | None:
    """Return the name of a claimed column; None for others."""
    return next((name for name in CLAIMED_COLUMNS if column is getattr(hosts, name)), None)
