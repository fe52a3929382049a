"""Metadata of a host's aggregates: each key has one value from every aggregate that sets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

Metadata = Mapping[str, frozenset[str]]
Number = TypeVar("Number", int, float)


def words(values: frozenset[str]) -> frozenset[str]:
    """Return the union of the values, each a comma-separated list."""
    return frozenset(word.strip() for value in values for word in value.split(","))


def least(metadata: Metadata, key: str, read: Callable[[str], Number]) -> Number | None:
    """Return the smallest number that aggregates give for `key`. None if none gives one, or if one is not a number.

    A value that cannot be read is not skipped: other aggregates would then override the one that set it.
    """
    values = metadata.get(key)
    if not values:
        return None
    try:
        numbers = [read(value) for value in values]
        return min(numbers) if all(map(math.isfinite, numbers)) else None
    except (ValueError, OverflowError):
        return None
