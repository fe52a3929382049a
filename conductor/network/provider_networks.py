"""Provider networks of administrators: segment types, and the rule that no segment is used twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS

from conductor.db.transactions import one_at_a_time
from conductor.network.errors import InvalidInput, SegmentInUse
from conductor.network.models import Network

FIELDS = ("provider_type", "physical_network", "segmentation_id")


@dataclass(frozen=True, slots=True)
class SegmentType:
    """The fields of a segment type; `last_segment` 0 where segments have no numbers."""

    is_physical: bool
    last_segment: int = 0


KINDS: Mapping[str, SegmentType] = {
    "local": SegmentType(is_physical=False),
    "flat": SegmentType(is_physical=True),
    "vlan": SegmentType(is_physical=True, last_segment=4094),
    "vxlan": SegmentType(is_physical=False, last_segment=2**24 - 1),
    "gre": SegmentType(is_physical=False, last_segment=2**31 - 1),
    "geneve": SegmentType(is_physical=False, last_segment=2**24 - 1),
}
DEFAULT_KIND = "local"


def is_physical(network: Network) -> bool:
    """Whether an administrator mapped the network to a physical one."""
    kind = KINDS.get(network.provider_type)
    return kind is not None and kind.is_physical


def check(values: Mapping[str, Any]) -> None:
    """Validate provider fields, in the write transaction creating the network. Raises InvalidInput, SegmentInUse."""
    name, physical, segment = (values.get(field) for field in FIELDS)
    if not name:
        if physical or segment is not None:
            raise InvalidInput("Invalid input for operation: provider:network_type required.")
        return
    kind = KINDS[name]
    if bool(physical) != kind.is_physical:
        word = "is required for" if kind.is_physical else "is not for"
        raise InvalidInput(f"Invalid input for operation: provider:physical_network {word} {name} networks.")
    if segment is not None and not kind.last_segment:
        raise InvalidInput(f"Invalid input for operation: provider:segmentation_id is not for {name} networks.")
    if kind.last_segment and (segment is None or not 1 <= segment <= kind.last_segment):
        raise InvalidInput(
            f"Invalid input for operation: provider:segmentation_id of {name} networks is 1 to {kind.last_segment}."
        )
    _refuse_taken(name, physical or "", segment)


def refuse_changes(network: Network, changes: Mapping[str, Any]) -> None:
    """Refuse changes of provider fields. Raises InvalidInput."""
    moved = [field for field in FIELDS if field in changes and (changes[field] or "") != (_held(network, field) or "")]
    if moved:
        raise InvalidInput("Invalid input for operation: Plugin does not support updating provider attributes.")


def _held(network: Network, field: str) -> Any:
    value = getattr(network, field)
    return value or DEFAULT_KIND if field == "provider_type" else value


def _refuse_taken(name: str, physical: str, segment: int | None) -> None:
    if name == "local":
        return
    one_at_a_time(DEFAULT_DB_ALIAS, f"segment:{name}:{physical}")
    if Network.objects.filter(provider_type=name, physical_network=physical, segmentation_id=segment).exists():
        raise SegmentInUse(f"Unable to create the network. The {name} segment {physical} {segment or ''} is in use.")
