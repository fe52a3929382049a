"""IP protocols by the names that rules of security groups use."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.port_filters import IPV4, IPV6

_ANY_VERSION: Mapping[str, int] = {
    "tcp": 6,
    "egp": 8,
    "udp": 17,
    "dccp": 33,
    "rsvp": 46,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ospf": 89,
    "vrrp": 112,
    "pgm": 113,
    "sctp": 132,
    "udplite": 136,
}
# Version of IP → the number of each name.
NUMBERS: Mapping[str, Mapping[str, int]] = {
    IPV4: {**_ANY_VERSION, "icmp": 1, "igmp": 2, "ipip": 4},
    IPV6: {
        **_ANY_VERSION,
        "icmp": 58,
        "icmpv6": 58,
        "ipv6-icmp": 58,
        "ipv6-encap": 41,
        "ipv6-route": 43,
        "ipv6-frag": 44,
        "ipv6-nonxt": 59,
        "ipv6-opts": 60,
    },
}
WITH_PORTS = frozenset(_ANY_VERSION[name] for name in ("tcp", "udp", "dccp", "sctp", "udplite"))
MAX_PORT, MAX_BYTE = 65_535, 255


def number_of(protocol: str, ethertype: str) -> int | None:
    """Return the number of a protocol that is given by name or number; None where this version of IP has none."""
    number = int(protocol) if protocol.isdecimal() else NUMBERS[ethertype].get(protocol)
    return number if number is not None and number <= MAX_BYTE else None
