"""A port as the kernel has it, and its addresses as rules write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

from conductor.core.errors import BuildAborted
from conductor.core.port_filters import PortFilter

Range = IPv4Network | IPv6Network
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
LINK_LOCAL = int.from_bytes(b"\xfe\x80", "big") << 112


@dataclass(frozen=True)
class Plug:
    """`device` is its end on the host, `bridge` its network; `more` are its addresses but the first."""

    device: str
    bridge: str
    mac_address: str
    ip_address: str
    filter: PortFilter
    more: tuple[str, ...] = ()


def addresses_of(plug: Plug) -> Iterator[str]:
    """Those of its port, and those that it may have besides."""
    yield from (plug.ip_address, *plug.more)
    yield from (pair.ip_address for pair in plug.filter.pairs)


def own_addresses(plug: Plug) -> list[Range]:
    """Those of its port alone. Raises BuildAborted."""
    found: list[Range] = []
    for address in (plug.ip_address, *plug.more):
        try:
            found.append(ip_network(address))
        except ValueError:
            raise BuildAborted(f"A port has no usable address: {address!r}.") from None
    return found


def own_mac(plug: Plug) -> str:
    """Raises BuildAborted."""
    if not (found := mac_of(plug.mac_address)):
        raise BuildAborted(f"A port has no usable MAC address: {plug.mac_address!r}.")
    return found


def mac_of(address: str) -> str:
    """As the kernel writes it; "" for what is none."""
    found = address.lower()
    return found if MAC.fullmatch(found) else ""


def networks(addresses: Iterable[str], version: int) -> list[Range]:
    """Each once, none within another: sets of the kernel refuse what overlaps. Other versions are left out."""
    found: list[Any] = []  # of one kind, which the type of collapse_addresses asks for
    for address in addresses:
        with suppress(ValueError):
            network = ip_network(address, strict=False)
            found += [network] if network.version == version else []
    return list(collapse_addresses(found))


def link_local(mac: str) -> IPv6Network:
    """What a card calls itself on its link: the EUI-64 of RFC 4291."""
    octets = bytes.fromhex(mac.replace(":", ""))
    made = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return IPv6Network(LINK_LOCAL | int.from_bytes(made, "big"))
