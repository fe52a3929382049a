"""Availability zones of networks and routers: one, as all network resources are available everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.network.errors import AvailabilityZoneNotFound

NAME = "nova"
RESOURCES = ("network", "router")


def require(hints: Iterable[str]) -> None:
    """Raise AvailabilityZoneNotFound for an unknown zone."""
    for hint in hints:
        if hint != NAME:
            raise AvailabilityZoneNotFound(f"AvailabilityZone {hint} could not be found.")
