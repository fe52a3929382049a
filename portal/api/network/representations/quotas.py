"""Limits in bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.network.quotas import RESOURCES
from portal.api.validation import as_boolean


def requested_limits(given: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """Return the limits of a checked body, and whether they must not be below the usage."""
    limits = {name: int(given[name]) for name in RESOURCES if name in given}
    return limits, as_boolean(given.get("check_limit", False), "check_limit")
