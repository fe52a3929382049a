"""JSON of host aggregates, per microversion."""

from __future__ import annotations

from typing import Any

from conductor.services.hosts.types import AggregateView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion

UUID_SINCE = "2.41"


def show(aggregate: AggregateView, version: Microversion) -> dict[str, Any]:
    """Return an aggregate with its hosts."""
    return created(aggregate, version) | {"hosts": list(aggregate.hosts), "metadata": dict(aggregate.metadata)}


def created(aggregate: AggregateView, version: Microversion) -> dict[str, Any]:
    """Return a new aggregate, without the members that it has no value for yet."""
    shown = {
        "id": aggregate.number,
        "name": aggregate.name,
        "availability_zone": aggregate.metadata.get("availability_zone"),
        "created_at": parts.to_the_digit(aggregate.created_at),
        "updated_at": parts.to_the_digit(aggregate.updated_at),
        "deleted_at": None,
        "deleted": False,
    }
    return shown | {"uuid": aggregate.uuid} if version.covers(UUID_SINCE) else shown
