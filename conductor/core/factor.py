"""Factorized column of few distinct values, such as zones and traits: each value is judged once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
_A = TypeVar("_A", bound=NDArray[Any])

FEW_CODES = 8  # this many comparisons cost less than one look-up per row


@dataclass(frozen=True)
class Factor:
    """A column of few distinct values: row i has `values[codes[i]]`. Codes are as short as their number allows."""

    of: Callable[[Any], Hashable]
    values: tuple[Any, ...]
    codes: NDArray[Any]

    @classmethod
    def of_states(cls, states: Sequence[Any], of: Callable[[Any], Hashable]) -> Factor:
        seen: dict[Hashable, int] = {}
        codes = np.fromiter((seen.setdefault(of(state), len(seen)) for state in states), np.intp, len(states))
        return cls(of, tuple(seen), read_only(codes.astype(np.min_scalar_type(len(seen)))))

    @cached_property
    def numbers(self) -> Column:
        """One number per row, for a factor of numbers; None counts as 0."""
        values = np.array([value or 0.0 for value in self.values], np.float64)
        if len(values) == 1:  # one number for all hosts takes no memory, and weighing sees it
            return np.broadcast_to(values[0], len(self.codes))
        column: Column = read_only(values[self.codes])
        return column

    @cached_property
    def union(self) -> frozenset[Any]:
        """Union of all values, for a factor of sets."""
        return frozenset().union(*self.values)

    def rows(self, code: int) -> NDArray[np.intp]:
        """Return the rows of one value, computed once."""
        found = self._rows.get(code)
        if found is None:
            self._rows[code] = found = read_only(np.flatnonzero(self.codes == code))
        return found

    @cached_property
    def _rows(self) -> dict[int, NDArray[np.intp]]:
        return {}

    def mask(self, keeps: Callable[[Any], bool]) -> Mask:
        """Return one bool per row; `keeps` is called once per distinct value."""
        verdicts = [bool(keeps(value)) for value in self.values]
        if len(set(verdicts)) < 2:  # one verdict for all, which is typical
            return np.full(len(self.codes), all(verdicts), np.bool_)
        is_rare = verdicts.count(True) <= verdicts.count(False)
        rare = [code for code, verdict in enumerate(verdicts) if verdict is is_rare]
        if len(rare) > FEW_CODES:
            found: Mask = np.array(verdicts, np.bool_)[self.codes]
            return found
        mask: Mask = self.codes == rare[0] if is_rare else self.codes != rare[0]
        for code in rare[1:]:
            mask = mask | (self.codes == code) if is_rare else mask & (self.codes != code)
        return mask

    def with_rows(self, changes: Mapping[int, Any]) -> Factor:
        known: dict[Hashable, int] = {value: code for code, value in enumerate(self.values)}
        new = {row: known.setdefault(self.of(state), len(known)) for row, state in changes.items()}
        if all(self.codes[row] == code for row, code in new.items()):
            return self  # with its cached results
        codes = self.codes.astype(np.promote_types(self.codes.dtype, np.min_scalar_type(len(known))))
        for row, code in new.items():
            codes[row] = code
        return Factor(self.of, tuple(known), read_only(codes))


def read_only(array: _A) -> _A:
    """Return a read-only view of the numbers, which a plugin cannot make writable again."""
    array.setflags(write=False)
    if not array.size:
        return array
    octets: Any = array.view(np.uint8)
    view: Any = np.frombuffer(memoryview(octets).toreadonly(), array.dtype)
    return view  # type: ignore[no-any-return]
