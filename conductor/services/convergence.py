"""Whether a guest's memory arrives faster than the guest changes it: figures of a live migration, made out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

STALLED_SECONDS = 20.0  # nothing was moved for so long
WINDOW_SECONDS = 30.0  # what rates are measured over
LEAST_SAMPLES = 2
UNSURE = 1.6  # the far end of an estimate, times the near one
SETTLED = 0.9  # a pass that begins with more than this share of what the one before began with gains nothing
DIRTY_NAMES = ("memory_dirty_rate", "dirty_rate")
PASS_NAMES = ("memory_pass", "memory_passes")  # the second one: what hosts of an earlier release say


@dataclass(frozen=True)
class Sample:
    """One report of the source, in bytes: all that there is, what was moved so far, and what is left."""

    at: datetime
    total: int
    moved: int
    left: int
    dirty_rate: float | None = None  # bytes per second that the guest changes, where the hypervisor tells
    pass_number: int | None = None
    downtime_ms: int | None = None
    downtime_limit_ms: int | None = None
    throttle_percent: int | None = None  # of the guest's processors, taken away so that it changes less
    is_post_copy_forced: bool = False  # forcing lets it go on at the destination before its memory is there
    is_post_copy: bool = False  # it does so already


@dataclass(frozen=True)
class Rates:
    """Between two reports: bytes per second that were moved, and that the guest changed meanwhile."""

    at: datetime
    moved: float
    dirtied: float


@dataclass(frozen=True)
class Verdict:
    """One sentence, and its tone. `low` and `high` are the seconds that it may still take, where that can be said."""

    text: str
    tone: str
    low: float | None = None
    high: float | None = None


def sample_of(at: datetime, figures: Mapping[str, Any]) -> Sample | None:
    """A report of figures; None for one that does not tell how much memory there is."""
    if not figures.get("memory_total"):
        return None
    total = int(figures["memory_total"])
    left = int(figures.get("memory_remaining") or 0)
    moved = int(figures.get("memory_processed") or max(0, total - left))
    dirty = next((float(figures[name]) for name in DIRTY_NAMES if figures.get(name) is not None), None)
    return Sample(
        at, total, moved, left, dirty, next(filter(None, (_whole(figures, name) for name in PASS_NAMES)), None),
        _whole(figures, "downtime_ms"), _whole(figures, "downtime_limit_ms"), _whole(figures, "throttle_percent"),
        is_post_copy_forced=bool(figures.get("is_post_copy_forced")), is_post_copy=bool(figures.get("is_post_copy")),
    )  # fmt: skip


def rates_of(samples: Sequence[Sample]) -> list[Rates]:
    """Between each report and the next. What is left grows by what the guest changed and shrinks by what was moved."""
    found = []
    for one, other in pairwise(samples):
        seconds = (other.at - one.at).total_seconds()
        if seconds <= 0:
            continue
        moved = max(0, other.moved - one.moved) / seconds
        grown = (other.left - one.left) / seconds
        dirtied = other.dirty_rate if other.dirty_rate is not None else max(0.0, moved + grown)
        found.append(Rates(other.at, moved, dirtied))
    return found


def judge(samples: Sequence[Sample], now: datetime) -> Verdict:
    """What the last half minute says. Never one number: an estimate is a range."""
    if len(samples) < LEAST_SAMPLES:
        return Verdict("It has just begun: there is nothing to judge by yet.", "none")
    last = samples[-1]
    if last.is_post_copy:
        return Verdict("The guest runs at its destination and fetches the rest of its memory.", "working")
    if last.left == 0:
        return Verdict("All memory has arrived; the guest switches over.", "good", 0.0, 0.0)
    near = [one for one in samples if (last.at - one.at).total_seconds() <= WINDOW_SECONDS]
    seconds = (last.at - near[0].at).total_seconds()
    quiet = (now - _last_moved(samples)).total_seconds()
    if quiet > STALLED_SECONDS:
        return Verdict(f"Stalled: nothing has moved for {quiet:.0f} s.", "bad")
    if len(near) < LEAST_SAMPLES or seconds <= 0:
        return Verdict("Too little was reported lately to judge.", "none")
    moved = max(0, last.moved - near[0].moved) / seconds
    told = [one.dirty_rate for one in near if one.dirty_rate is not None]
    shrinks = sum(told) / len(told) if told else max(0.0, moved + (last.left - near[0].left) / seconds)
    if shrinks >= moved or _gains_nothing(near):
        return Verdict(f"Not converging: the guest changes {rate(shrinks)}, the link moves {rate(moved)}.", "bad")
    low = last.left / (moved - shrinks)
    return Verdict(f"Converging: about {span(low, low * UNSURE)}.", "working", low, low * UNSURE)


def _gains_nothing(samples: Sequence[Sample]) -> bool:
    """Whether the last pass began with as much as the one before: a guest that writes the same memory over and over.

    What it changes in a second seems little then, as each page counts once in a pass. The first pass is all there is.
    """
    begun: dict[int, int] = {}
    for one in samples:
        if one.pass_number is not None and one.pass_number > 1:
            begun[one.pass_number] = max(one.left, begun.get(one.pass_number, 0))
    amounts = list(begun.values())[-2:]
    return len(amounts) > 1 and amounts[1] > SETTLED * amounts[0]


def in_unit(amount: float) -> tuple[float, str]:
    """1.2 and "GiB": in powers of two, as memory is told."""
    for unit_size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if amount >= 0.9995 * unit_size:  # else it would be told as 1024.0 of the smaller one
            return amount / unit_size, unit
    return amount, "B"


def size(amount: float) -> str:
    """1.2 GiB, 512 B."""
    value, unit = in_unit(amount)
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def rate(bytes_per_second: float) -> str:
    """1.2 GiB/s: what is left and how quickly it goes are read together, so in the same units."""
    return f"{size(bytes_per_second)}/s"


def span(low: float, high: float) -> str:
    """40–70 s, 3–5 min."""
    size, unit = (60.0, "min") if low >= 120 else (1.0, "s")
    near, far = max(1, round(low / size)), max(2, round(high / size))
    return f"{near}–{max(far, near + 1)} {unit}"


def _last_moved(samples: Sequence[Sample]) -> datetime:
    moment = samples[0].at
    for one, other in pairwise(samples):
        if other.moved != one.moved or other.left != one.left:
            moment = other.at
    return moment


def _whole(figures: Mapping[str, Any], name: str) -> int | None:
    return int(figures[name]) if figures.get(name) is not None else None
