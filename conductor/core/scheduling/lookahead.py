"""Lookahead of a batch: computes several picks at once from the weights of the near hosts with 1, 2, 3 more instances.

As long as no range of normalisation moves, no host is full and no two weigh the same, the next picks follow from these
weights alone, in descending order. Where one of these happens, the lookahead ends, and that pick is made alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conductor.core.host_state import Column, Mask
from conductor.core.scheduling.weighing import WeightTerm

STEPS = 6  # instances that each host is looked ahead
EXACT = float(1 << 50)  # whole numbers below it add up without rounding, in any order

Ends = tuple[float, float]


class LookaheadColumn(NamedTuple):
    """One weigher's numbers for the near hosts, their change per instance, and the range of all other hosts."""

    part: WeightTerm
    step: float
    far: Ends


class FreeCapacity(NamedTuple):
    """Free amounts of a resource, and the amount that an instance takes."""

    free: Column
    amount: float


class LookaheadResult(NamedTuple):
    """The picked rows in order, and all weights afterwards."""

    places: list[int]
    counts: NDArray[np.int64]
    weights: Column


def is_exact(columns: Sequence[Column]) -> bool:
    """Whether all are whole numbers that add up without rounding."""
    numbers = np.stack(columns) if columns else np.empty(0)
    return bool((numbers == np.rint(numbers)).all()) and bool(np.abs(numbers).max(initial=0.0) < EXACT)


def climb(
    weights: Column, rails: Sequence[LookaheadColumn], rooms: Sequence[FreeCapacity], *, most: int, bound: float
) -> LookaheadResult | None:
    """Return the next picks, at most `most`, as long as they weigh more than `bound`. None if there is no such pick.

    `weights` are the current weights of all candidates.
    """
    count = len(weights)
    more = np.arange(STEPS + 1, dtype=np.float64)[:, None]
    totals = np.zeros((STEPS + 1, count), np.float64)
    ends = np.zeros((STEPS + 1, count), np.bool_)
    ends[STEPS] = True
    for free, amount in rooms:
        ends[:STEPS] |= free - more[1:] * amount < amount
    for rail in rails:
        _add(totals, ends, rail, more)
    heads = np.minimum.accumulate(totals, axis=0)  # a step comes after the steps below it
    flat = heads.ravel()
    order = _greatest(flat, most + 1)
    found = flat[order]
    stops = ends.ravel()[order] | (found <= bound)
    stops[:-1] |= found[:-1] == found[1:]
    stops[1:] |= found[:-1] == found[1:]
    first = int(stops.argmax()) if stops.any() else len(order)
    places = (order[: min(first, most)] % count).tolist()
    if not places:
        return None
    counts = np.bincount(places, minlength=count)
    return LookaheadResult(places, counts, totals[counts, np.arange(count)])


def _add(totals: Column, ends: Mask, rail: LookaheadColumn, more: Column) -> None:
    """Add the weigher's share at each step, in the order of a single host's sum, and mark where its range may move."""
    part, (low, high) = rail.part, rail.part.ends
    numbers = part.column + more * rail.step
    if rail.step:
        now, then = numbers[:-1], numbers[1:]
        ends[:-1] |= then < low if rail.step < 0 else then > high
        if not rail.far[0] <= low:
            ends[:-1] |= now <= low
        if not rail.far[1] >= high:
            ends[:-1] |= now >= high
    if part.low == part.high:
        return
    if part.is_beyond:
        numbers = np.clip(numbers, part.low, part.high)
    shares = (numbers - part.low if part.low else numbers) / (part.high - part.low)
    totals += shares if isinstance(part.multiplier, float) and part.multiplier == 1.0 else shares * part.multiplier


def _greatest(numbers: Column, count: int) -> NDArray[np.intp]:
    """Return the places of the largest numbers, largest first."""
    rows = np.arange(len(numbers))
    if count < len(numbers):
        rows = np.argpartition(numbers, len(numbers) - count)[len(numbers) - count :]
    return rows[np.argsort(-numbers[rows], kind="stable")]
