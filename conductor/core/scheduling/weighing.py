"""Weighs hosts: normalises each weigher's raw numbers over the candidates, multiplies and adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, takewhile
from typing import NamedTuple

import numpy as np

from conductor.core.errors import NovellaError
from conductor.core.host_state import Column, HostTable, Mask
from conductor.core.plugin_choice import WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.multipliers import Multipliers as Multipliers
from conductor.core.scheduling.multipliers import options_of
from conductor.core.scheduling.watching import (
    InvalidResult,
    NotCalled,
    PluginFault,
    PluginTimedOut,
    PluginUse,
    Rules,
    Watch,
    contained,
)
from conductor.core.sums import Term
from conductor.core.weigher import Weigher

OUT = -np.inf  # the weight of a host that is not a candidate
BLOCK = 16_384


class WeightMissing(NovellaError):
    """A weigher lacks a number that a decision requires."""


class WeightTerm(NamedTuple):  # a frozen dataclass takes four times as long to create
    """One weigher's term: its raw column, the range of its normalisation, and the factor.

    `multiplier` is a number, or a column where aggregates differ. The weight of a single host is computed on demand, as
    a decision needs it for few hosts.
    """

    weigher: str
    column: Column
    low: float
    high: float
    multiplier: float | Column
    is_beyond: bool = False  # some candidates' numbers lie outside the range
    ends: tuple[float, float] = (0.0, 0.0)  # minimum and maximum of the candidates' numbers
    own: str = ""  # the name of the table's column, if it is one

    @property
    def is_counted(self) -> bool:
        """Whether its factor is not 0 for all."""
        return not isinstance(self.multiplier, float) or self.multiplier != 0.0

    def of_its_own(self) -> WeightTerm:
        """Return the term with a private copy of its column, which the plugin could modify."""
        return self._replace(column=self.column.copy()) if self.column.flags.writeable else self

    def numbers(self, rows: Sequence[int]) -> list[float]:
        """Return the raw numbers of some rows."""
        return [float(self.column[row]) for row in rows]

    def weight(self, row: int) -> float:
        """Return the term's share of one candidate's total, computed exactly as in the column's sum."""
        factor = self.multiplier if isinstance(self.multiplier, float) else float(self.multiplier[row])
        if self.low == self.high or not factor:
            return 0.0
        raw = float(self.column[row])
        share = ((min(max(raw, self.low), self.high) if self.is_beyond else raw) - self.low) / (self.high - self.low)
        return share * factor

    def of(self, row: int) -> tuple[float, float, float]:
        """Return raw number, share and factor of the candidate in `row`."""
        return self.of_rows((row,))[0]

    def of_rows(self, rows: Sequence[int]) -> list[tuple[float, float, float]]:
        """Return raw number, share and factor of each candidate in `rows`."""
        chosen, low, high = list(rows), self.low, self.high
        one = self.multiplier
        factors = [one] * len(chosen) if isinstance(one, float) else one[chosen].tolist()
        raws = [min(max(raw, low), high) for raw in self.column[chosen].astype(np.float64).tolist()]
        if low == high:
            return [(raw, 0.0, factor) for raw, factor in zip(raws, factors, strict=True)]
        return [(raw, (raw - low) / (high - low), factor) for raw, factor in zip(raws, factors, strict=True)]


@dataclass(frozen=True)
class Weighing:
    """The total weight of each row, OUT for rows that are not among the `count` candidates. With one candidate there
    are no parts.
    """

    totals: Column
    count: int
    parts: tuple[WeightTerm, ...] = ()
    faults: tuple[PluginFault, ...] = ()


@dataclass(frozen=True)
class PreviousWeighing:
    """An earlier weighing of the request, and the few rows that may have changed since.

    It has the numbers of these rows, and whether they were candidates then. All other rows have the same numbers.
    """

    weighing: Weighing
    rows: Sequence[int]
    raws: tuple[list[float], ...]  # of each weigher, for the rows that were candidates
    passing: Mask

    @classmethod
    def of(cls, weighing: Weighing, passing: Mask, rows: Sequence[int]) -> PreviousWeighing:
        were = [row for row in rows if passing[row]]
        return cls(weighing, rows, tuple(part.numbers(were) for part in weighing.parts), passing)

    def now(self, passing: Mask) -> PreviousWeighing:
        """Return the earlier weighing with the current candidates."""
        return replace(self, passing=passing)

    def ends(self, index: int, column: Column, candidates: _Candidates) -> tuple[float, float]:
        """Return the current range of a weigher. All candidates are scanned only where a row at an end of the range
        left it.
        """
        least, greatest = self.weighing.parts[index].ends
        gone = self.raws[index]
        come = [float(column[row]) for row in self.rows if self.passing[row]]
        if not all(map(math.isfinite, come)):
            return math.nan, math.nan  # which is rejected
        low, high = min(come, default=np.inf), max(come, default=OUT)
        if gone and (min(gone) <= least < low or max(gone) >= greatest > high):
            return candidates.ends(column)
        return min(least, low), max(greatest, high)

    def totals(self, parts: Sequence[WeightTerm]) -> Column:
        """Return the current sums where no range changed. They are added in the same order as the sums of all rows."""
        totals = self.weighing.totals.copy()
        for row in self.rows:
            totals[row] = sum((part.weight(row) for part in parts), 0.0) if self.passing[row] else OUT
        return totals


def weigh(
    hosts: HostTable,
    spec: RequestSpec,
    weighers: Sequence[Weigher],
    *,
    multipliers: Multipliers,
    passing: Mask | PreviousWeighing,
    watch: Watch | None = None,
) -> Weighing:
    """Weigh the hosts that pass. A weigher that fails is left out and reported. A shadow weigher does not count.

    Whole columns are computed and masked at the end, as selecting the candidates from each column would cost more.
    """
    since, passing = (passing, passing.passing) if isinstance(passing, PreviousWeighing) else (None, passing)
    count = int(np.count_nonzero(passing))
    if count < 2:
        return Weighing(np.where(passing, 0.0, OUT), count)
    turn = _WeighingRound(hosts, spec, multipliers, _Candidates(hosts, passing, count), watch or Watch(Rules()))
    is_by_row = not any(one.compares_hosts for one in weighers)
    turn.since = since if since and is_by_row and len(since.raws) == len(weighers) else None
    for is_plain, some in groupby(weighers, partial(turn.watch.is_plain, WEIGHER)):
        if is_plain:
            turn.ask_plain(tuple(some))
        else:
            for one in some:
                turn.ask(one)
    turn.note_shadows()
    return Weighing(turn.totals(), count, tuple(turn.parts), tuple(turn.faults))


class _Candidates:
    """The hosts that are weighed."""

    def __init__(self, hosts: HostTable, passing: Mask, count: int) -> None:
        self.hosts = hosts
        self.passing = passing
        self.count = count

    def ends(self, column: Column) -> tuple[float, float]:
        """Return the minimum and maximum of the candidates' numbers."""
        if column.strides == (0,):  # one number for all hosts
            number = float(column[0])
            return number, number
        known = self.hosts.ends_of(column, self.passing)
        if known is not None:
            return known
        least, greatest = column.argmin(), column.argmax()
        if self.passing[least] and self.passing[greatest]:  # all hosts and the candidates have the same ends
            return float(column[least]), float(column[greatest])
        candidates = column[self.passing]
        return float(candidates.min()), float(candidates.max())


class _WeighingRound:
    """Runs all weighers of one round."""

    def __init__(
        self, hosts: HostTable, spec: RequestSpec, multipliers: Multipliers, candidates: _Candidates, watch: Watch
    ) -> None:
        self.hosts = hosts
        self.spec = spec
        self.multipliers = multipliers
        self.candidates = candidates
        self.watch = watch
        self.parts: list[WeightTerm] = []
        self.shadows: list[tuple[PluginUse, WeightTerm]] = []
        self.faults: list[PluginFault] = []
        self.host_options = options_of(hosts)
        self.zeros = hosts.zeros
        self.since: PreviousWeighing | None = None

    def ask_plain(self, weighers: Sequence[Weigher]) -> None:
        """Run these weighers without time limits."""
        clock, note = self.watch.rules.clock, self.watch.note
        began = clock()
        for one in weighers:
            try:
                self.parts.append(self._part(one))
            except BaseException as error:
                self._failed(one, self.watch.of(WEIGHER, one), contained(error))
            ended = clock()
            note(WEIGHER, one, ended - began)
            began = ended

    def ask(self, one: Weigher) -> None:
        """Run a weigher, and account for its time."""
        use = self.watch.of(WEIGHER, one)
        if use.is_shadow and use.turns:
            return
        began = self.watch.rules.clock()
        try:
            self.watch.require(use)
            part = self._part(one, partial(self.watch.call, use))
            part = part if use.is_trusted else part.of_its_own()
            self.shadows.append((use, part)) if use.is_shadow else self.parts.append(part)
        except NotCalled as error:
            self.faults.append(self.watch.fault(use, self.candidates.count, error))
            if isinstance(error, PluginTimedOut):
                self.watch.turned(use, self.watch.rules.clock() - began)
            return
        except BaseException as error:
            self._failed(one, use, contained(error))
        if self.watch.turned(use, self.watch.rules.clock() - began):
            self.faults.append(self.watch.late(use, self.candidates.count))

    def totals(self) -> Column:
        """Return the sums; where only some rows have changed, these are updated."""
        passing, since = self.candidates.passing, self.since
        if since is None or not _is_measured_alike(self.parts, since.weighing.parts):
            return totals_of(self.parts, passing, self.hosts)
        return since.totals(self.parts)

    def note_shadows(self) -> None:
        """Record the host that would be heaviest with each shadow weigher."""
        for use, part in self.shadows:
            totals = totals_of([*self.parts, part], self.candidates.passing)
            use.would_choose = self.hosts.states[int(totals.argmax())].host

    def _failed(self, one: Weigher, use: PluginUse, error: Exception) -> None:
        """Record a failure. Raises WeightMissing where the weigher's number is required."""
        if one.must_know and isinstance(error, InvalidResult):
            raise WeightMissing(f"{one.name} lacks what it needs to weigh a host.", weigher=one.name) from None
        self.faults.append(self.watch.fault(use, self.candidates.count, error))

    def _part(self, one: Weigher, call: Callable[..., Column] | None = None) -> WeightTerm:
        """Return one weigher's term. Raises what it raises, or Nonsense."""
        hosts = self.hosts
        multiplier: float | Column = self.multipliers.general(one)
        requested = multiplier or one.asked_at_zero
        weigh = partial(call, one.weigh_among) if call else one.weigh_among
        column = weigh(hosts, self.spec, self.candidates.passing) if requested else self.zeros
        if one.multiplier_option in self.host_options:
            multiplier = self.multipliers.of(one, hosts)
        if column is self.zeros and not one.minval and not one.maxval:  # no opinion
            return WeightTerm(one.name, column, 0.0, 0.0, multiplier)
        own = hosts.name_of(column)
        if not own:
            _check(column, len(hosts))
        ends = self.since.ends(len(self.parts), column, self.candidates) if self.since else self.candidates.ends(column)
        low, high = share_ends(ends, one.minval, one.maxval)
        is_beyond = ends[0] < low or ends[1] > high
        return WeightTerm(one.name, column, low, high, multiplier, is_beyond, ends, own)


def totals_of(parts: Sequence[WeightTerm], passing: Mask, hosts: HostTable | None = None) -> Column:
    """Return the sums. The part of leading terms over the table's own columns is cached."""
    informative = [part for part in parts if part.low != part.high and part.is_counted]
    terms = tuple(map(_term, takewhile(_is_own, informative))) if hosts else ()
    if hosts and terms:
        first = informative[: len(terms)]
        totals = hosts.sum_of(terms, lambda: _with(np.zeros(len(passing)), first)).copy()
    else:
        totals = np.zeros(len(passing))
    _with(totals, informative[len(terms) :])
    np.copyto(totals, OUT, where=~passing)
    return totals


def _is_own(part: WeightTerm) -> bool:
    return bool(part.own) and not part.is_beyond and isinstance(part.multiplier, float)


def _term(part: WeightTerm) -> Term:
    return Term(part.own, part.low, part.high, part.multiplier)  # type: ignore[arg-type]


def _with(totals: Column, parts: Sequence[WeightTerm]) -> Column:
    """Add these terms in place, block by block, so that a block stays in the processor's cache."""
    if not parts:
        return totals
    scratch = np.empty(min(BLOCK, len(totals)), np.float64)
    with np.errstate(all="ignore"):  # hosts that do not pass may have any numbers
        for start in range(0, len(totals), BLOCK):
            rows = slice(start, start + BLOCK)
            block = totals[rows]
            for part in parts:
                _add(block, part, rows, scratch[: len(block)])
    return totals


def _is_measured_alike(parts: Sequence[WeightTerm], before: Sequence[WeightTerm]) -> bool:
    """Whether each weigher's range and factor are the same as in the earlier weighing."""
    return len(parts) == len(before) and all(
        (now.weigher, now.low, now.high) == (then.weigher, then.low, then.high)
        and isinstance(now.multiplier, float)
        and isinstance(then.multiplier, float)
        and now.multiplier == then.multiplier
        for now, then in zip(parts, before, strict=True)
    )


def share_ends(
    ends: tuple[float, float], minval: float | None = None, maxval: float | None = None
) -> tuple[float, float]:
    """Return the range of normalisation: the weigher's own ends, or the ends of the numbers where it sets none.

    Numbers beyond an end count as that end. Where both ends are equal all shares are 0.

    Raises:
        InvalidResult: a number is not finite.
    """
    least, greatest = ends
    if not (math.isfinite(least) and math.isfinite(greatest)):
        raise InvalidResult("a weight is not finite")
    if minval is None and maxval is None:
        return ends
    lower = OUT if minval is None else float(minval)
    upper = np.inf if maxval is None else float(maxval)
    low = min(max(least, lower), upper) if minval is None else lower
    high = min(max(greatest, lower), upper) if maxval is None else upper
    return low, high


def _add(totals: Column, part: WeightTerm, rows: slice, scratch: Column) -> None:
    """Add share times factor to the totals of `rows`, skipping steps that change no number."""
    shares = _shares_in(part, rows, scratch)
    if not isinstance(part.multiplier, float):
        shares = np.multiply(shares, part.multiplier[rows], out=scratch)
    elif abs(part.multiplier) != 1.0:
        shares = np.multiply(shares, part.multiplier, out=scratch)
    elif part.multiplier < 0:
        np.subtract(totals, shares, out=totals)
        return
    np.add(totals, shares, out=totals)


def _shares_in(part: WeightTerm, rows: slice, scratch: Column) -> Column:
    """Return the shares of some rows."""
    numbers = part.column[rows]
    if part.is_beyond:
        numbers = np.clip(numbers, part.low, part.high, out=scratch)
    if part.low:
        numbers = np.subtract(numbers, part.low, out=scratch)
    return np.divide(numbers, part.high - part.low, out=scratch)


def _check(column: Column, count: int) -> None:
    if type(column) is not np.ndarray or column.shape != (count,) or column.dtype.kind not in "fiub":
        raise InvalidResult(f"column of {count} numbers expected")
