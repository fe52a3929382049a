"""IPv6 address modes of subnets: by DHCP, or derived from MAC addresses."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Protocol

from conductor.network.errors import InvalidInput
from conductor.network.ranges import Range

SLAAC, STATEFUL, STATELESS = "slaac", "dhcpv6-stateful", "dhcpv6-stateless"
AUTOMATIC = (SLAAC, STATELESS)
_PREFIX_LENGTH = 64


class Ipv6Modes(Protocol):
    """Address modes of a subnet, or of a request for one."""

    @property
    def ipv6_address_mode(self) -> str | None: ...
    @property
    def ipv6_ra_mode(self) -> str | None: ...
    @property
    def is_dhcp_enabled(self) -> bool: ...


class Ranged(Ipv6Modes, Protocol):
    @property
    def cidr(self) -> str: ...


def is_automatic(subnet: Ipv6Modes) -> bool:
    """Whether guests derive their own addresses."""
    return subnet.ipv6_address_mode in AUTOMATIC or subnet.ipv6_ra_mode in AUTOMATIC


def of(subnet: Ipv6Modes) -> str:
    """Return the mode that the host announces to guests, as the network has no other router; "" for none."""
    return subnet.ipv6_address_mode or subnet.ipv6_ra_mode or ""


def address_of(subnet: Ranged, mac_address: str) -> str:
    """Return the address that a guest derives from its MAC address: the EUI-64 of RFC 4291."""
    octets = bytes.fromhex(mac_address.replace(":", ""))
    interface = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return str(ip_network(subnet.cidr)[int.from_bytes(interface, "big")])


def check(address_range: Range, requested: Ipv6Modes) -> None:
    """Raise InvalidInput naming the mode that does not fit."""
    address_mode, ra_mode = requested.ipv6_address_mode, requested.ipv6_ra_mode
    if not address_mode and not ra_mode:
        return
    if address_range.version != 6:
        raise InvalidInput("ipv6_address_mode and ipv6_ra_mode are for IPv6 subnets: ip_version is 4.")
    if not requested.is_dhcp_enabled:
        raise InvalidInput("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False.")
    if address_mode and ra_mode and address_mode != ra_mode:
        raise InvalidInput(
            f"Invalid input for operation: ipv6_ra_mode set to '{ra_mode}' with ipv6_address_mode set to "
            f"'{address_mode}' does not work: give the same twice, or one of them."
        )
    if is_automatic(requested) and address_range.prefixlen != _PREFIX_LENGTH:
        raise InvalidInput(
            f"Invalid CIDR {address_range} for IPv6 address mode: addresses made of "
            "MAC addresses need a prefix of 64 bits."
        )
