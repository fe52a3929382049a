"""Cached sums of weights over a table's own columns: weighers with the same hosts and ranges share one sum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from conductor.core.factor import Column, read_only


class Term(NamedTuple):
    """A column's values scaled from `low`…`high` to 0…1, times a factor."""

    column: str
    low: float
    high: float
    factor: float

    def of(self, numbers: Column) -> Column:
        """Return (number - low) / (high - low) * factor, in the exact order of operations of a sum of all rows."""
        shares: Column = np.divide(numbers - self.low if self.low else numbers, self.high - self.low)
        return shares * self.factor if abs(self.factor) != 1.0 else shares if self.factor > 0 else -shares


Terms = tuple[Term, ...]


def with_rows(total: Column, terms: Terms, rows: Sequence[int], columns: Mapping[str, Column]) -> Column:
    """Return the sum with these rows computed again."""
    changed = np.fromiter(rows, np.intp, len(rows))
    numbers = np.zeros(len(changed), np.float64)
    with np.errstate(all="ignore"):  # hosts that are no candidates may have any values
        for term in terms:
            numbers += term.of(columns[term.column][changed])
    total = total.copy()
    total[changed] = numbers
    return read_only(total)


def carried(kept: Mapping[Terms, Column], rows: Collection[int], columns: Mapping[str, Column]) -> dict[Terms, Column]:
    """Update the sums of columns in which some rows changed."""
    return {terms: with_rows(total, terms, tuple(rows), columns) for terms, total in kept.items()}
