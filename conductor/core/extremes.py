"""Cached smallest and largest values of a column, a few of each: enough to find its range among the passing hosts."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conductor.core.factor import Column, Mask

Pair = tuple[float, int]  # value, row

KEPT = 32


@dataclass(frozen=True, slots=True)
class Least:
    """The rows with the smallest values, smallest first. No other row has a value below `bound`."""

    pairs: tuple[Pair, ...]
    bound: float

    @classmethod
    def of(cls, column: Column) -> Least:
        if len(column) <= KEPT:
            return cls(tuple(sorted(zip(column.tolist(), range(len(column)), strict=True))), np.inf)
        rows = np.argpartition(column, KEPT)[: KEPT + 1]
        pairs = sorted(zip(column[rows].tolist(), rows.tolist(), strict=True))
        return cls(tuple(pairs[:KEPT]), pairs[KEPT][0])

    def among(self, passing: Mask) -> float | None:
        """Return the smallest value among the passing rows; None where no passing row is cached."""
        for number, row in self.pairs:
            if passing[row]:
                return number
        return None

    def with_rows(self, rows: Collection[int], changed: NDArray[np.intp], numbers: Column) -> Least:
        """Return the cache with the current values of these rows."""
        pairs = [pair for pair in self.pairs if pair[1] not in rows]
        near = numbers <= self.bound
        for pair in zip(numbers[near].tolist(), changed[near].tolist(), strict=True) if near.any() else ():
            insort(pairs, pair)
        if len(pairs) <= 2 * KEPT:
            return Least(tuple(pairs), self.bound)
        return Least(tuple(pairs[:KEPT]), pairs[KEPT][0])


@dataclass(frozen=True, slots=True)
class Extremes:
    """Both ends of a column. `greatest` holds negated values."""

    least: Least
    greatest: Least

    @classmethod
    def of(cls, column: Column) -> Extremes | None:
        """Return the extremes of a column; None where it has values that are not finite: those have no order."""
        return cls(Least.of(column), Least.of(-column)) if np.isfinite(column).all() else None

    def among(self, passing: Mask) -> tuple[float, float] | None:
        """Return the smallest and largest value among the passing rows. None if the cache cannot tell."""
        low, high = self.least.among(passing), self.greatest.among(passing)
        return None if low is None or high is None else (low, -high)

    def with_rows(self, rows: Collection[int], column: Column) -> Extremes | None:
        """Return the cache with the current values of these rows. None if it must be computed again."""
        changed = np.fromiter(rows, np.intp, len(rows))
        numbers = column[changed]
        if not np.isfinite(numbers).all():
            return None
        least = self.least.with_rows(rows, changed, numbers)
        greatest = self.greatest.with_rows(rows, changed, -numbers)
        return Extremes(least, greatest) if least.pairs and greatest.pairs else None


def carried(
    kept: Mapping[str, Extremes | None], rows: Collection[int], columns: Mapping[str, Column]
) -> dict[str, Extremes | None]:
    """Update the extremes of columns in which some rows changed. Columns that must be computed again are left out."""
    found = {name: made.with_rows(rows, columns[name]) for name, made in kept.items() if made}
    return {name: made for name, made in found.items() if made}
