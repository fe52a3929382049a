"""What aggregates say of their hosts: each key has one value from every aggregate that names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

Metadata = Mapping[str, frozenset[str]]
Number = TypeVar("Number", int, float)


def words(values: frozenset[str]) -> frozenset[str]:
    """The values as lists parted by commas, all together."""
    return frozenset(word.strip() for value in values for word in value.split(","))


def least(metadata: Metadata, key: str, read: Callable[[str], Number]) -> Number | None:
    """The least number that aggregates give for `key`; None where none does, or where one of them is no number.

    To pass over the one that cannot be read would let the others decide for an aggregate that said something else.
    """
    values = metadata.get(key)
    if not values:
        return None
    try:
        numbers = [read(value) for value in values]
        return min(numbers) if all(map(math.isfinite, numbers)) else None
    except (ValueError, OverflowError):
        return None
