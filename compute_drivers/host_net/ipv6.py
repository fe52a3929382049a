"""How guests of a bridge come by their IPv6 addresses: the agent advertises prefixes and answers DHCPv6.

It is no way out of the network, so it says that it is no router. What it tells holds until the guest's next start:
while no agent runs, guests keep what they have.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from compute_drivers.host_net.plugs import link_local
from compute_drivers.user_net import packets
from compute_drivers.user_net.metadata_segment import OWN_MAC
from conductor.core.compute_driver import PortAddress

OWN = link_local(OWN_MAC.hex(":")).network_address
ALL_NODES = IPv6Address("ff02::1")
SOLICIT_ROUTER, ADVERTISE_ROUTER = 133, 134
CLIENT_PORT, SERVER_PORT = 546, 547
FOR_EVER = 0xFFFFFFFF
LEASE_SECONDS = 86400
ADVERTISED_EVERY_SECONDS = 200.0
# What subnets say of their guests' addresses.
STATEFUL, SLAAC, STATELESS = "dhcpv6-stateful", "slaac", "dhcpv6-stateless"
MANAGED, OTHER, ON_LINK, AUTONOMOUS = 0x80, 0x40, 0x80, 0x40
SOLICIT, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, INFORM = 1, 2, 3, 4, 5, 6, 7, 8, 9, 11
CLIENT_ID, SERVER_ID, ADDRESSES, ADDRESS, STATUS, AT_ONCE, NAMES = 1, 2, 3, 5, 13, 14, 23
SUCCESS, NO_ADDRESS, NOT_ON_LINK = 0, 2, 4
DUID = struct.pack("!HH", 3, 1) + OWN_MAC
FOR_ONE_SERVER = frozenset((REQUEST, RENEW, RELEASE, DECLINE))
WANTING = frozenset((SOLICIT, REQUEST, RENEW, REBIND))


@dataclass(frozen=True)
class Lodger:
    """A guest's card, and what is told to it."""

    addresses: tuple[PortAddress, ...]

    def of(self, *modes: str) -> list[PortAddress]:
        return [one for one in self.addresses if one.ipv6_mode in modes]

    def names(self) -> bytes:
        """Of all its subnets, each once."""
        told = dict.fromkeys(name for one in self.of(SLAAC, STATELESS, STATEFUL) for name in one.dns_nameservers)
        found = b""
        for name in told:
            with suppress(ValueError):  # of IPv4, which its own DHCP tells
                found += IPv6Address(name).packed
        return found


class AddressSegment:
    """Frame in, frames out. Who is no lodger is not heard."""

    def __init__(self) -> None:
        self._lodgers: dict[bytes, Lodger] = {}
        self._due_at = 0.0

    def tell(self, addresses: Mapping[str, Sequence[PortAddress]]) -> None:
        """These from now on, by their MAC addresses; all are told soon, also who asked while nobody was there."""
        told = ((bytes.fromhex(mac.replace(":", "")), Lodger(tuple(found))) for mac, found in addresses.items())
        found = {mac: lodger for mac, lodger in told if lodger.of(SLAAC, STATELESS, STATEFUL)}
        if found != self._lodgers:
            self._lodgers = found  # at once: another thread reads it
            self._due_at = 0.0

    def receive(self, frame: packets.Frame) -> list[bytes]:
        lodger = self._lodgers.get(frame.source)
        found = packets.packet_of_ipv6(frame.payload) if frame.kind == packets.IPV6 else None
        if lodger is None or found is None:
            return []
        asks = found.protocol == packets.ICMPV6 and packets.is_near(found)
        if asks and found.payload[:2] == bytes((SOLICIT_ROUTER, 0)):
            return [_advertisement(frame.source, lodger)]
        told = packets.udp_of(found.payload) if found.protocol == packets.UDP else None
        if told is None or told[:2] != (CLIENT_PORT, SERVER_PORT):
            return []
        said = _answer(told[2], lodger)
        return (
            [_framed(frame.source, found.source, packets.UDP, packets.udp(SERVER_PORT, CLIENT_PORT, said))]
            if said
            else []
        )

    def turn(self, now: float) -> list[bytes]:
        """What is due by the clock."""
        if now < self._due_at:
            return []
        self._due_at = now + ADVERTISED_EVERY_SECONDS
        return [_advertisement(mac, lodger) for mac, lodger in self._lodgers.items()]


def _advertisement(mac: bytes, lodger: Lodger) -> bytes:
    """To all nodes, but on its card alone: others have other prefixes."""
    flags = MANAGED | OTHER if lodger.of(STATEFUL) else OTHER if lodger.of(STATELESS) else 0
    said = struct.pack("!BBHBBHII", ADVERTISE_ROUTER, 0, 0, packets.TTL, flags, 0, 0, 0)
    said += struct.pack("!BB6s", 1, 1, OWN_MAC)
    prefixes: dict[IPv6Network, bool] = {}
    for one in lodger.of(SLAAC, STATELESS, STATEFUL):
        prefixes[IPv6Network(one.cidr)] = one.ipv6_mode != STATEFUL
    for prefix, is_made in prefixes.items():
        bits = ON_LINK | (AUTONOMOUS if is_made else 0)
        said += struct.pack("!BBBBIII", 3, 4, prefix.prefixlen, bits, FOR_EVER, FOR_EVER, 0)
        said += prefix.network_address.packed
    if names := lodger.names():
        said += struct.pack("!BBHI", 25, 1 + len(names) // 8, 0, FOR_EVER) + names
    return _framed(mac, ALL_NODES.packed, packets.ICMPV6, said)


def _answer(asked: bytes, lodger: Lodger) -> bytes:
    """b"" for what is not to be answered."""
    if len(asked) < 4:
        return b""
    kind, options = asked[0], _options(asked[4:])
    if not _is_for_us(kind, options):
        return b""
    said = [(code, data) for code, data in ((CLIENT_ID, options.get(CLIENT_ID, b"")), (SERVER_ID, DUID)) if data]
    if kind in WANTING:
        said += _given(options, lodger)
    elif kind == CONFIRM:
        said.append((STATUS, struct.pack("!H", SUCCESS if _are_its_own(options, lodger) else NOT_ON_LINK)))
    elif kind in (RELEASE, DECLINE):
        said.append((STATUS, struct.pack("!H", SUCCESS)))
    elif kind != INFORM:
        return b""
    if names := lodger.names():
        said.append((NAMES, names))
    is_offer = kind == SOLICIT and AT_ONCE not in options
    if kind == SOLICIT and not is_offer:
        said.append((AT_ONCE, b""))
    return bytes([ADVERTISE if is_offer else REPLY]) + asked[1:4] + _packed(said)


def _is_for_us(kind: int, options: Mapping[int, bytes]) -> bool:
    """Some words are for a server that was chosen, the others for any."""
    server = options.get(SERVER_ID)
    if server is None and kind in FOR_ONE_SERVER:
        return False
    return server in (None, DUID) and (CLIENT_ID in options or kind == INFORM)


def _given(options: Mapping[int, bytes], lodger: Lodger) -> list[tuple[int, bytes]]:
    """Its addresses, where it asks for some that last."""
    wanted = options.get(ADDRESSES, b"")
    if len(wanted) < 12:
        return []
    inner = [
        (ADDRESS, IPv6Address(one.ip_address).packed + struct.pack("!II", LEASE_SECONDS, LEASE_SECONDS))
        for one in lodger.of(STATEFUL)
    ] or [(STATUS, struct.pack("!H", NO_ADDRESS))]
    half = LEASE_SECONDS // 2
    return [(ADDRESSES, wanted[:4] + struct.pack("!II", half, half * 8 // 5) + _packed(inner))]


def _are_its_own(options: Mapping[int, bytes], lodger: Lodger) -> bool:
    own = {IPv6Address(one.ip_address).packed for one in lodger.of(STATEFUL)}
    inner = _options(options.get(ADDRESSES, b"")[12:])
    return inner.get(ADDRESS, b"")[:16] in own


def _options(data: bytes) -> dict[int, bytes]:
    """The first of each kind; what is cut off is left out."""
    found: dict[int, bytes] = {}
    place = 0
    while place + 4 <= len(data):
        code, size = struct.unpack_from("!HH", data, place)
        if place + 4 + size > len(data):
            break
        found.setdefault(code, data[place + 4 : place + 4 + size])
        place += 4 + size
    return found


def _packed(options: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack("!HH", code, len(data)) + data for code, data in options)


def _framed(mac: bytes, target: bytes, protocol: int, payload: bytes) -> bytes:
    packet = packets.packet_ipv6(OWN.packed, target, protocol, payload)
    return packets.frame(mac, OWN_MAC, packets.IPV6, packet)
