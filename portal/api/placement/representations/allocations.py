"""Parses allocation bodies into ConsumerAllocations, and shows consumers' allocations as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.placement.consumers_allocations import UNCHECKED, ConsumerAllocations, ProviderAllocation, Unchecked
from portal.api.microversions import Microversion
from portal.api.placement.uuids import uuid_in

# Owner of allocations from versions that did not ask for one.
NIL_UUID = "00000000-0000-0000-0000-000000000000"
UNTYPED = "unknown"
_ANY_GENERATION = 0  # of a provider: clients need not send it


def requested(consumer_uuid: str, given: Mapping[str, Any], version: Microversion) -> ConsumerAllocations:
    """Return all allocations that a consumer shall have. Raises Invalid for a malformed uuid."""
    held = given["allocations"]
    if isinstance(held, list):
        held = {item["resource_provider"]["uuid"]: item for item in held}
    return ConsumerAllocations(
        consumer_uuid=uuid_in(consumer_uuid, "consumer_uuid"),
        project_id=given.get("project_id", NIL_UUID),
        user_id=given.get("user_id", NIL_UUID),
        generation=_generation(given, version),
        consumer_type=given.get("consumer_type"),
        allocations={
            uuid_in(uuid, "allocations"): ProviderAllocation(_ANY_GENERATION, _amounts(item["resources"]))
            for uuid, item in held.items()
        },
    )


def requests(given: Mapping[str, Any], version: Microversion) -> list[ConsumerAllocations]:
    """Return the allocations of several consumers."""
    return [requested(uuid, values, version) for uuid, values in given.items()]


def _generation(given: Mapping[str, Any], version: Microversion) -> int | Unchecked | None:
    if not version.covers("1.28"):
        return UNCHECKED
    found = given["consumer_generation"]
    return None if found is None else int(found)


def _amounts(resources: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(amount) for name, amount in resources.items()}


def of_consumer(found: ConsumerAllocations, version: Microversion) -> dict[str, Any]:
    """Return a consumer's allocations, by provider."""
    shown: dict[str, Any] = {
        "allocations": {
            uuid: {"generation": share.generation, "resources": dict(share.resources)}
            for uuid, share in found.allocations.items()
        }
    }
    if found.allocations and version.covers("1.12"):
        shown |= {"project_id": found.project_id, "user_id": found.user_id}
        shown |= _consumer(found, version)
        if version.covers("1.38"):
            shown["consumer_type"] = found.consumer_type or UNTYPED
    return shown


def of_provider(generation: int, found: list[ConsumerAllocations], version: Microversion) -> dict[str, Any]:
    """Return the allocations from a provider, by consumer."""
    shown = {}
    for consumer in found:
        (share,) = consumer.allocations.values()
        shown[consumer.consumer_uuid] = {"resources": dict(share.resources), **_consumer(consumer, version)}
    return {"resource_provider_generation": generation, "allocations": shown}


def _consumer(found: ConsumerAllocations, version: Microversion) -> dict[str, Any]:
    return {"consumer_generation": found.generation} if version.covers("1.28") else {}
