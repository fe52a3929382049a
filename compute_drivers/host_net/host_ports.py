"""Ports in the host's kernel, and their addresses in the form that rules need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

from conductor.core.errors import BuildAborted
from conductor.core.port_filters import PortFilter

AddressRange = IPv4Network | IPv6Network
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
LINK_LOCAL = int.from_bytes(b"\xfe\x80", "big") << 112


@dataclass(frozen=True)
class HostPort:
    """A port in the kernel: its tap `device`, its `bridge`, and its addresses; `more` has all but the first."""

    device: str
    bridge: str
    mac_address: str
    ip_address: str
    filter: PortFilter
    more: tuple[str, ...] = ()


def addresses_of(port: HostPort) -> Iterator[str]:
    """Yield the port's addresses and its allowed address pairs."""
    yield from (port.ip_address, *port.more)
    yield from (pair.ip_address for pair in port.filter.pairs)


def own_addresses(port: HostPort) -> list[AddressRange]:
    """Return the port's own addresses. Raises BuildAborted for an invalid one."""
    found: list[AddressRange] = []
    for address in (port.ip_address, *port.more):
        try:
            found.append(ip_network(address))
        except ValueError:
            raise BuildAborted(f"A port has no usable address: {address!r}.") from None
    return found


def own_mac(port: HostPort) -> str:
    """Return the port's MAC address. Raises BuildAborted for an invalid one."""
    if not (found := normalize_mac(port.mac_address)):
        raise BuildAborted(f"A port has no usable MAC address: {port.mac_address!r}.")
    return found


def normalize_mac(address: str) -> str:
    """Return a MAC address in lower case; "" for an invalid one."""
    found = address.lower()
    return found if MAC.fullmatch(found) else ""


def networks(addresses: Iterable[str], version: int) -> list[AddressRange]:
    """Return the addresses of one IP version without overlaps, which sets of the kernel refuse."""
    found: list[Any] = []  # of one version, as collapse_addresses requires
    for address in addresses:
        with suppress(ValueError):
            network = ip_network(address, strict=False)
            found += [network] if network.version == version else []
    return list(collapse_addresses(found))


def link_local(mac: str) -> IPv6Network:
    """Return the link-local address of a card: the EUI-64 of RFC 4291."""
    octets = bytes.fromhex(mac.replace(":", ""))
    made = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return IPv6Network(LINK_LOCAL | int.from_bytes(made, "big"))
