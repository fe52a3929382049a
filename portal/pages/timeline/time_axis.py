"""The time axis of a timeline: long idle stretches are folded, so that activity keeps its space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, floor

from portal.pages.amounts import short

SHORTEST_SPAN_SECONDS = 0.1
IDLE_SHARE = 0.2  # of the whole span: a longer idle stretch is folded
FOLDED_SHARE = 0.06  # of the remaining span: the width of a folded stretch
TICKS = 5
LAST_TEXT = 0.9  # a tick further right has no space for its label
# Within this distance of a fold's centre, left and right, a tick has no space for a label.
NEAR, NEAR_WHERE_NARROW = (-0.08, 0.05), (-0.3, 0.15)
NICE_SECONDS = (
    0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400
)  # fmt: skip

Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Tick:
    """A round time; `is_near_fold` if its label needs a wide axis to avoid that of a fold."""

    at: float
    text: str
    is_near_fold: bool = False


@dataclass(frozen=True)
class Fold:
    """A folded idle stretch: its place, and its duration."""

    start: float
    length: float
    seconds: float

    @property
    def middle(self) -> float:
        return self.start + self.length / 2


@dataclass(frozen=True)
class Axis:
    """Times as shares of the axis; `scale` is the share of the past.

    `idle` are the folded stretches in seconds after `begin`, each drawn as `folded_seconds`.
    """

    begin: datetime
    end: datetime
    scale: float
    idle: tuple[tuple[float, float], ...] = ()
    folded_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Real seconds from begin to end."""
        return max((self.end - self.begin).total_seconds(), SHORTEST_SPAN_SECONDS)

    @property
    def drawn_seconds(self) -> float:
        """Seconds from begin to end as drawn."""
        return self._drawn(self.seconds)

    @property
    def seconds_per_share(self) -> float:
        return self.drawn_seconds / self.scale

    def at(self, moment: datetime) -> float:
        return self.at_seconds((moment - self.begin).total_seconds())

    def at_seconds(self, seconds: float) -> float:
        share = self._drawn(min(max(seconds, 0.0), self.seconds)) / self.drawn_seconds
        return min(max(share, 0.0), 1.0) * self.scale

    def folds(self) -> list[Fold]:
        found = []
        for begun, ended in self.idle:
            start = self.at_seconds(begun)
            found.append(Fold(start, self.at_seconds(ended) - start, ended - begun))
        return found

    def ticks(self) -> list[Tick]:
        """Round times outside of folds."""
        most = max(TICKS - len(self.idle), 1)
        step = next((nice for nice in NICE_SECONDS if self.drawn_seconds / nice <= most), self.drawn_seconds / most)
        starts = [0.0, *(ended for _, ended in self.idle)]
        ends = [*(begun for begun, _ in self.idle), self.seconds]
        found, middles = [], [fold.middle for fold in self.folds()]
        for begun, ended in zip(starts, ends, strict=True):
            for number in range(ceil(begun / step), floor(ended / step) + 1):
                share = self.at_seconds(number * step)
                has_room = share < LAST_TEXT and not _is_near(share, middles, NEAR)
                text = _words(number * step, step) if has_room else ""
                found.append(Tick(share, text, _is_near(share, middles, NEAR_WHERE_NARROW)))
        return found

    def _drawn(self, seconds: float) -> float:
        drawn = seconds
        for begun, ended in self.idle:
            if seconds >= ended:
                drawn -= (ended - begun) - self.folded_seconds
            elif seconds > begun:
                drawn -= (seconds - begun) * (1 - self.folded_seconds / (ended - begun))
        return max(drawn, 0.0)


def fitted(begin: datetime, end: datetime, busy: Iterable[Span], scale: float) -> Axis:
    """Return an axis that folds stretches outside of `busy` that are long for its span."""
    plain = Axis(begin, end, scale)
    idle = tuple(_idle(plain, busy))
    left = plain.seconds - sum(ended - begun for begun, ended in idle)
    return Axis(begin, end, scale, idle, max(left, SHORTEST_SPAN_SECONDS) * FOLDED_SHARE)


def _idle(axis: Axis, busy: Iterable[Span]) -> Iterable[tuple[float, float]]:
    reached = 0.0
    for begun, ended in _in_seconds(axis, busy):
        if begun - reached > axis.seconds * IDLE_SHARE:
            yield reached, begun
        reached = max(reached, ended)
    lasted = (axis.end - axis.begin).total_seconds()  # a short axis is padded
    if lasted - reached > axis.seconds * IDLE_SHARE and reached > 0:
        yield reached, lasted


def _in_seconds(axis: Axis, busy: Iterable[Span]) -> Sequence[tuple[float, float]]:
    spans = [((begun - axis.begin).total_seconds(), (ended - axis.begin).total_seconds()) for begun, ended in busy]
    return sorted((max(0.0, begun), min(axis.seconds, ended)) for begun, ended in spans if begun <= axis.seconds)


def _is_near(share: float, middles: Iterable[float], room: tuple[float, float]) -> bool:
    return any(room[0] < share - middle < room[1] for middle in middles)


def _words(seconds: float, step: float) -> str:
    if step < 1:
        return f"{short(round(seconds, 2))} s"
    if step < 60:
        return f"{short(seconds)} s"
    if step < 3600:
        return f"{short(seconds / 60, 3)} min"
    return f"{short(seconds / 3600, 3)} h"
