"""Parses inventories, and shows them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.placement.amounts import Amount
from portal.api.microversions import Microversion

_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
ALL_RESERVED = "1.26"


def amount(name: str, given: Mapping[str, Any], version: Microversion) -> Amount:
    """Parse the inventory of a resource class. Raises Invalid for one without usable capacity."""
    values = {field: int(given[field]) for field in _FIELDS[:-1] if field in given}
    read = Amount(**values, allocation_ratio=float(given.get("allocation_ratio", 1.0)))
    capacity = int(read.capacity)
    if capacity < 0 or (capacity == 0 and not version.covers(ALL_RESERVED)):
        bound = "greater than" if version.covers(ALL_RESERVED) else "greater than or equal to"
        raise Invalid(
            f"Unable to update inventory: of {name}, reserved ({read.reserved}) is {bound} total ({read.total}), "
            "or the allocation ratio leaves nothing.",
            field="reserved",
        )
    return read


def amounts(given: Mapping[str, Mapping[str, Any]], version: Microversion) -> dict[str, Amount]:
    """Parse the inventories of several classes."""
    return {name: amount(name, values, version) for name, values in given.items()}


def show(found: Amount) -> dict[str, Any]:
    """Return one inventory."""
    return {field: getattr(found, field) for field in _FIELDS}
