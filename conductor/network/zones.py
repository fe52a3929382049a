"""Availability zones of networks and routers: one, as everything of the network is everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.network.errors import AvailabilityZoneNotFound

NAME = "nova"
RESOURCES = ("network", "router")


def require(hints: Iterable[str]) -> None:
    """Raises AvailabilityZoneNotFound for a zone that there is not."""
    for hint in hints:
        if hint != NAME:
            raise AvailabilityZoneNotFound(f"AvailabilityZone {hint} could not be found.")
