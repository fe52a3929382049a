"""Sums of what weighers say of a table's own columns: who weighs the same hosts with the same ends adds up the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from conductor.core.factor import Column, read_only


class Term(NamedTuple):
    """A column's numbers as shares of the way from `low` to `high`, times a factor."""

    column: str
    low: float
    high: float
    factor: float

    def of(self, numbers: Column) -> Column:
        """(number - low) / (high - low) * factor, in the very steps of a sum of all rows."""
        shares: Column = np.divide(numbers - self.low if self.low else numbers, self.high - self.low)
        return shares * self.factor if abs(self.factor) != 1.0 else shares if self.factor > 0 else -shares


Terms = tuple[Term, ...]


def with_rows(total: Column, terms: Terms, rows: Sequence[int], columns: Mapping[str, Column]) -> Column:
    """The sum where these rows have other numbers."""
    changed = np.fromiter(rows, np.intp, len(rows))
    numbers = np.zeros(len(changed), np.float64)
    with np.errstate(all="ignore"):  # hosts that are no candidates may have any numbers
        for term in terms:
            numbers += term.of(columns[term.column][changed])
    total = total.copy()
    total[changed] = numbers
    return read_only(total)


def carried(kept: Mapping[Terms, Column], rows: Collection[int], columns: Mapping[str, Column]) -> dict[Terms, Column]:
    """The sums of columns in which some rows have other numbers."""
    return {terms: with_rows(total, terms, tuple(rows), columns) for terms, total in kept.items()}
