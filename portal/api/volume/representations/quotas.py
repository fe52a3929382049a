"""Limits in bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import Invalid
from conductor.services.quotas import volume_quotas

LARGEST = 2**31 - 1
IGNORED = ("tenant_id", "force", "id", "class_name", "skip_validation")


def limits(given: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return the limits. Raises Invalid for an unknown resource, or for a value below -1."""
    known = volume_quotas.known()
    named = {name: value for name, value in given.items() if name not in IGNORED}
    for name in named:
        if name not in known:
            raise Invalid(f"Bad key(s) in quota set: {name[:60]}", field=f"{where}.{name[:60]}")
    return {name: _limit(f"{where}.{name}", value) for name, value in named.items()}


def _limit(field: str, value: Any) -> int:
    try:
        number = int(value) if not isinstance(value, bool) else -2
    except (TypeError, ValueError):
        number = -2
    if not -1 <= number <= LARGEST:
        raise Invalid(
            f"Invalid input for field/attribute {field}. It must be a number from -1 to {LARGEST}.", field=field
        )
    return number
