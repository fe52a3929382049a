"""IP addresses as they come in headers and from resolvers, and which of them are public."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](:\d{1,5})?|(?P<four>[0-9.]+):\d{1,5}")
_GLOBAL_UNICAST = IPv6Network(
    "2000::/3"
)  # all that the world routes; the rest of IPv6 is local, reserved or IPv4 inside
_NAT64 = IPv6Network("64:ff9b::/96")  # a network without IPv4 reaches public IPv4 addresses by these
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
    """Whether the address leads out of this machine and its networks, wherever it is sent.

    False for loopback, private, link-local, shared, multicast, unspecified and reserved addresses, and for IPv6 forms
    that carry such an IPv4 address or let the sender choose a relay.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inner is not None:
            return is_public(inner)
        is_unicast = address in _GLOBAL_UNICAST and not any(address in network for network in _RELAYED)
        return is_unicast and address.is_global
    return address.is_global and not address.is_multicast and address not in _RELAYS
