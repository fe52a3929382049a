"""Convergence of live migrations: estimates from the source's figures when all memory is copied, if ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from conductor.core.messages import Message, message

STALLED_SECONDS = 20.0  # no progress for so long
WINDOW_SECONDS = 30.0  # rates are averages over this time
LEAST_SAMPLES = 2
UNSURE = 1.6  # upper bound of an estimate, as a multiple of the lower one
SETTLED = 0.9  # a pass that starts with more than this share of the previous pass's start makes no progress
DIRTY_NAMES = ("memory_dirty_rate", "dirty_rate")
PASS_NAMES = ("memory_pass", "memory_passes")  # the second one: reported by hosts of an earlier release


@dataclass(frozen=True)
class Sample:
    """One report of the source, in bytes: total memory, copied so far, and remaining."""

    at: datetime
    total: int
    moved: int
    left: int
    dirty_rate: float | None = None  # bytes per second that the guest changes, where the hypervisor reports it
    pass_number: int | None = None
    downtime_ms: int | None = None
    downtime_limit_ms: int | None = None
    throttle_percent: int | None = None  # of the guest's processors, taken away so that it changes less memory
    is_post_copy_forced: bool = False  # forced completion continues at the destination before all memory is copied
    is_post_copy: bool = False  # it runs at the destination already


@dataclass(frozen=True)
class Rates:
    """Rates between two reports: bytes per second that were copied, and that the guest changed meanwhile."""

    at: datetime
    moved: float
    dirtied: float


@dataclass(frozen=True)
class ConvergenceVerdict:
    """One sentence, and its tone. `low` and `high` bound the remaining seconds, where they can be estimated."""

    text: str
    tone: str
    low: float | None = None
    high: float | None = None


def sample_of(at: datetime, figures: Mapping[str, Any]) -> Sample | None:
    """Return a sample of a report's figures; None for one without the amount of memory."""
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
    """Return the rates between consecutive reports.

    The remainder grows by changed memory and shrinks by copied memory.
    """
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


def judge(samples: Sequence[Sample], now: datetime) -> ConvergenceVerdict:
    """Judge the progress from the last half minute. An estimate is a range, never one number."""
    if len(samples) < LEAST_SAMPLES:
        return ConvergenceVerdict(message("migration.just_begun"), "none")
    last = samples[-1]
    if last.is_post_copy:
        return ConvergenceVerdict(message("migration.fetching"), "working")
    if last.left == 0:
        return ConvergenceVerdict(message("migration.switching"), "good", 0.0, 0.0)
    near = [one for one in samples if (last.at - one.at).total_seconds() <= WINDOW_SECONDS]
    seconds = (last.at - near[0].at).total_seconds()
    quiet = (now - _last_moved(samples)).total_seconds()
    if quiet > STALLED_SECONDS:
        return ConvergenceVerdict(message("migration.stalled", seconds=round(quiet)), "bad")
    if len(near) < LEAST_SAMPLES or seconds <= 0:
        return ConvergenceVerdict(message("migration.too_few_reports"), "none")
    moved = max(0, last.moved - near[0].moved) / seconds
    lines = [one.dirty_rate for one in near if one.dirty_rate is not None]
    shrinks = sum(lines) / len(lines) if lines else max(0.0, moved + (last.left - near[0].left) / seconds)
    if shrinks >= moved or _gains_nothing(near):
        rates = {"changed": rate_of(shrinks), "moved": rate_of(moved)}
        return ConvergenceVerdict(message("migration.not_converging", **rates), "bad")
    low = last.left / (moved - shrinks)
    return ConvergenceVerdict(
        message("migration.converging", span=span(low, low * UNSURE)), "working", low, low * UNSURE
    )


def _gains_nothing(samples: Sequence[Sample]) -> bool:
    """Whether the last pass began with as much as the one before: the guest rewrites the same memory over and over.

    Its rate of changes seems low then, as each page counts once per pass. The first pass copies all memory.
    """
    begun: dict[int, int] = {}
    for one in samples:
        if one.pass_number is not None and one.pass_number > 1:
            begun[one.pass_number] = max(one.left, begun.get(one.pass_number, 0))
    amounts = list(begun.values())[-2:]
    return len(amounts) > 1 and amounts[1] > SETTLED * amounts[0]


def in_unit(amount: float) -> tuple[float, str]:
    """Return an amount and its unit in powers of two: 1.2 and "GiB"."""
    for unit_size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if amount >= 0.9995 * unit_size:  # else it would be rounded to 1024.0 of the smaller unit
            return amount / unit_size, unit
    return amount, "B"


def size(amount: float) -> str:
    """Format an amount: 1.2 GiB, 512 B."""
    value, unit = in_unit(amount)
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def rate(bytes_per_second: float) -> str:
    """Format a rate: 1.2 GiB/s, in the same units as the remainder."""
    return f"{size(bytes_per_second)}/s"


def size_of(amount: float) -> Message:
    """Return an amount as a message, with the number in the reader's language."""
    value, unit = in_unit(amount)
    return message("amount", amount=round(value) if unit == "B" else round(value, 1), unit=unit)


def rate_of(bytes_per_second: float) -> Message:
    """Return a rate as a message."""
    value, unit = in_unit(bytes_per_second)
    return message("amount", amount=round(value) if unit == "B" else round(value, 1), unit=f"{unit}/s")


def span(low: float, high: float) -> str:
    """Format a range of seconds: 40–70 s, 3–5 min."""
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
