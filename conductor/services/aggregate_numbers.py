"""Keys of aggregates that filters and weighers read as numbers: what is none would silently count for nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from conductor.core.errors import Invalid
from conductor.core.scheduling.count_limits import CountLimit
from conductor.plugins import registry


def check(changes: Mapping[str, str | None]) -> None:
    """Raises Invalid naming the key. None takes a key away."""
    found = registry()
    factors = {one.multiplier_option for one in found.brought_weighers}
    limits = {one.option for one in found.brought_filters if isinstance(one, CountLimit) and one.asks_aggregates}
    for key, value in changes.items():
        if value is None:
            continue
        if key in factors and not _is_number(value):
            _refuse(key, value, "a number, such as 1.5")
        if key in limits and not _is_count(value):
            _refuse(key, value, "a whole number from 0 on")


def _refuse(key: str, value: str, needed: str) -> None:
    raise Invalid(f'Aggregate metadata {key}: "{value[:60]}" is not {needed}.', field=f"metadata.{key}")


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_count(value: str) -> bool:
    try:
        return int(value) >= 0
    except ValueError:
        return False
