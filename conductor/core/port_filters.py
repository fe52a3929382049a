"""Port filters: the rules of a port's security groups as a host applies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from conductor.core.plain_json import known_fields

INGRESS, EGRESS = "ingress", "egress"
IPV4, IPV6 = "IPv4", "IPv6"
# Capability key under which a host reports the fingerprint of the filters that it applies.
PORT_FILTERS = "port_filters"


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One kind of traffic that passes.

    Attributes:
        protocol: A name or number; "" is any. For ICMP the ports hold type and code.
        remote_prefix: Addresses of the peer.
        remote_group: Id of the security group of the peer. With neither this nor a prefix any peer is allowed.
    """

    direction: str
    ethertype: str = IPV4
    protocol: str = ""
    low: int | None = None
    high: int | None = None
    remote_prefix: str = ""
    remote_group: str = ""


@dataclass(frozen=True, slots=True)
class AddressPair:
    """Another address that a port may send from; an empty MAC is the port's own."""

    ip_address: str
    mac_address: str = ""


@dataclass(frozen=True, slots=True)
class PortFilter:
    """The filter of a port. `groups` are ids of the port's security groups.

    Without rules no traffic passes. With `is_on` false all traffic does.
    """

    is_on: bool = True
    groups: tuple[str, ...] = ()
    rules: tuple[FilterRule, ...] = ()
    pairs: tuple[AddressPair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PortFilter:
        """Parse the JSON of a filter. Fields that a newer sender added are dropped."""
        return cls(
            is_on=bool(data.get("is_on", True)),
            groups=tuple(data.get("groups", ())),
            rules=tuple(FilterRule(**known_fields(FilterRule, rule)) for rule in data.get("rules", ())),
            pairs=tuple(AddressPair(**known_fields(AddressPair, pair)) for pair in data.get("pairs", ())),
        )


def fingerprint(filters: Mapping[str, PortFilter]) -> str:
    """Return a fingerprint of port filters. Hosts report it to show which filters they have applied."""
    values = {port: found.to_json() for port, found in filters.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
