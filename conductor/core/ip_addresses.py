"""Parsing of IP addresses from headers and resolvers, and the test whether one is public."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](:\d{1,5})?|(?P<four>[0-9.]+):\d{1,5}")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # globally routed; the rest of IPv6 is local, reserved or carries IPv4
_NAT64 = IPv6Network("64:ff9b::/96")  # networks without IPv4 reach public IPv4 addresses through these
_RELAYED = (
    IPv6Network("2002::/16"),
    IPv6Network("2001::/32"),
)  # 6to4 and Teredo end at an IPv4 address of the sender's choice
_RELAYS = IPv4Network("192.88.99.0/24")


def read_address(text: str) -> Address | None:
    """The address that `text` spells, with or without brackets, a port and a zone; None for anything else.

    An IPv6 address that is an IPv4 one (::ffff:192.0.2.1), as sockets for both families show them, is the IPv4 one.
    """
    found = _WITH_PORT.fullmatch(text)
    bare = (found["six"] or found["four"] or "") if found else text
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def is_public(address: Address) -> bool:
    """Whether the address is globally routed: it leads out of this machine and its networks.

    It is false for loopback, private, link-local, shared, multicast, unspecified and reserved addresses, and for IPv6
    forms that carry such an IPv4 address or let the sender choose a relay.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inner is not None:
            return is_public(inner)
        is_unicast = address in _GLOBAL_UNICAST and not any(address in network for network in _RELAYED)
        return is_unicast and address.is_global
    return address.is_global and not address.is_multicast and address not in _RELAYS
