"""Parses IP addresses of headers and resolvers, and tests whether an address is public."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](:\d{1,5})?|(?P<four>[0-9.]+):\d{1,5}")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # globally routed; the rest of IPv6 is local, reserved or carries IPv4
_NAT64 = IPv6Network("64:ff9b::/96")  # networks without IPv4 reach public IPv4 addresses through this prefix
# IANA's registries of special-purpose addresses, their state of 2024: what is not globally reachable, or ends at a
# relay, and multicast. It is our own table because that of `ipaddress` differs between versions of Python.
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; the two that are global lead to the nearest server
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_SPECIAL_V6 = tuple(  # within _GLOBAL_UNICAST
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, with Teredo: its address names an IPv4 one of the sender's choice
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: as Teredo
            "3fff::/20",  # documentation
        ),
    )
)


def read_address(text: str) -> Address | None:
    """Parse an address, with or without brackets, a port and a zone. None for any other text.

    An IPv4-mapped IPv6 address (::ffff:192.0.2.1), as sockets for both families show it, becomes the IPv4 address.
    """
    found = _WITH_PORT.fullmatch(text)
    bare = (found["six"] or found["four"] or "") if found else text
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def is_public(address: Address) -> bool:
    """Whether the address is globally routed: packets to it leave this machine and its networks.

    It is false for loopback, private, link-local, shared, multicast, unspecified and reserved addresses, and for IPv6
    forms that carry such an IPv4 address or let the sender choose a relay.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inner is not None:
            return is_public(inner)
        return address in _GLOBAL_UNICAST and not any(address in network for network in _SPECIAL_V6)
    return not any(address in network for network in _SPECIAL_V4)
