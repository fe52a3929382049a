"""Histogram of call durations. It is compact, and the counts of several processes can be added."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

# Upper ends in milliseconds, each one and a half times the one before: from 0.01 ms to some minutes, then one for
# longer calls.
ENDS = tuple(round(0.01 * 1.5**step, 5) for step in range(44))


def counted(milliseconds: Iterable[float]) -> list[int]:
    """Return how many calls fall into each step."""
    counts = [0] * (len(ENDS) + 1)
    for length in milliseconds:
        counts[bisect.bisect_left(ENDS, length)] += 1
    return counts


def added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return the sum of both counts; either may be empty."""
    return [a + b for a, b in itertools.zip_longest(one, other, fillvalue=0)]


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration that `share` of the calls did not exceed, as the end of its step; None without calls."""
    wanted = share * sum(counts)
    if not wanted:
        return None
    for end, total in zip(ENDS, itertools.accumulate(counts), strict=False):
        if total >= wanted:
            return end
    return ENDS[-1]
