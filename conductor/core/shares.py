"""A column's numbers as shares of the way between two ends: whoever weighs the same hosts measures them alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from conductor.core.factor import Column, read_only


class Shares(NamedTuple):
    """`numbers[i]` is how far row i is on the way from `low` to `high`, as (number - low) / (high - low)."""

    low: float
    high: float
    numbers: Column

    @classmethod
    def of(cls, column: Column, low: float, high: float) -> Shares:
        return cls(low, high, read_only(_shares(column, low, high)))

    def with_rows(self, rows: Collection[int], column: Column) -> Shares:
        """Of the column in which these rows have other numbers."""
        changed = np.fromiter(rows, np.intp, len(rows))
        numbers = self.numbers.copy()
        numbers[changed] = _shares(column[changed], self.low, self.high)
        return self._replace(numbers=read_only(numbers))


def _shares(column: Column, low: float, high: float) -> Column:
    with np.errstate(all="ignore"):  # hosts that are no candidates may have any numbers
        return np.divide(column - low if low else column, high - low)


def carried(kept: Mapping[str, Shares], rows: Collection[int], columns: Mapping[str, Column]) -> dict[str, Shares]:
    """Those of columns in which some rows have other numbers."""
    return {name: made.with_rows(rows, columns[name]) for name, made in kept.items()}
