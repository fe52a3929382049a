"""IPv6 addresses for guests on a bridge: router advertisements with prefixes, and a DHCPv6 server.

The advertised router lifetime is 0, because the agent forwards nothing. Prefixes never expire, so guests keep their
addresses while no agent runs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from compute_drivers.host_net.host_ports import link_local
from compute_drivers.user_net import packets
from compute_drivers.user_net.shared_metadata import OWN_MAC
from conductor.core.compute_driver import PortAddress

ROUTER_ADDRESS = link_local(OWN_MAC.hex(":")).network_address
ALL_NODES = IPv6Address("ff02::1")
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT = 133, 134
CLIENT_PORT, SERVER_PORT = 546, 547
INFINITE_LIFETIME = 0xFFFFFFFF
LEASE_SECONDS = 86400
ADVERTISEMENT_INTERVAL_SECONDS = 200.0
# Address modes of subnets.
STATEFUL, SLAAC, STATELESS = "dhcpv6-stateful", "slaac", "dhcpv6-stateless"
MANAGED, OTHER, ON_LINK, AUTONOMOUS = 0x80, 0x40, 0x80, 0x40
SOLICIT, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, INFORM = 1, 2, 3, 4, 5, 6, 7, 8, 9, 11
CLIENT_ID, SERVER_ID, IA_NA, IA_ADDRESS, STATUS, RAPID_COMMIT, DNS_SERVERS = 1, 2, 3, 5, 13, 14, 23
SUCCESS, NO_ADDRESS, NOT_ON_LINK = 0, 2, 4
DUID = struct.pack("!HH", 3, 1) + OWN_MAC
TO_ONE_SERVER = frozenset((REQUEST, RENEW, RELEASE, DECLINE))
REQUESTING = frozenset((SOLICIT, REQUEST, RENEW, REBIND))


@dataclass(frozen=True)
class AddressClient:
    """The addresses of one guest's card."""

    addresses: tuple[PortAddress, ...]

    def with_mode(self, *modes: str) -> list[PortAddress]:
        return [one for one in self.addresses if one.ipv6_mode in modes]

    def dns_servers(self) -> bytes:
        """Return the packed addresses of its IPv6 name servers, each once."""
        nameservers = dict.fromkeys(
            name for one in self.with_mode(SLAAC, STATELESS, STATEFUL) for name in one.dns_nameservers
        )
        found = b""
        for name in nameservers:
            with suppress(ValueError):  # IPv4 servers are for DHCPv4
                found += IPv6Address(name).packed
        return found


class AddressSegment:
    """Answers frames with frames; frames from unknown cards are ignored."""

    def __init__(self) -> None:
        self._clients: dict[bytes, AddressClient] = {}
        self._due_at = 0.0

    def configure(self, addresses: Mapping[str, Sequence[PortAddress]]) -> None:
        """Serve these addresses, by MAC, and advertise them soon to guests that asked while no agent ran."""
        cards = ((bytes.fromhex(mac.replace(":", "")), AddressClient(tuple(found))) for mac, found in addresses.items())
        found = {mac: client for mac, client in cards if client.with_mode(SLAAC, STATELESS, STATEFUL)}
        if found != self._clients:
            self._clients = found  # replaced atomically: another thread reads it
            self._due_at = 0.0

    def receive(self, frame: packets.Frame) -> list[bytes]:
        client = self._clients.get(frame.source)
        found = packets.packet_of_ipv6(frame.payload) if frame.kind == packets.IPV6 else None
        if client is None or found is None:
            return []
        asks = found.protocol == packets.ICMPV6 and packets.is_from_link(found)
        if asks and found.payload[:2] == bytes((ROUTER_SOLICITATION, 0)):
            return [_advertisement(frame.source, client)]
        datagram = packets.udp_of(found.payload) if found.protocol == packets.UDP else None
        if datagram is None or datagram[:2] != (CLIENT_PORT, SERVER_PORT):
            return []
        reply = _answer(datagram[2], client)
        return (
            [_framed(frame.source, found.source, packets.UDP, packets.udp(SERVER_PORT, CLIENT_PORT, reply))]
            if reply
            else []
        )

    def tick(self, now: float) -> list[bytes]:
        """Return the frames that are due."""
        if now < self._due_at:
            return []
        self._due_at = now + ADVERTISEMENT_INTERVAL_SECONDS
        return [_advertisement(mac, client) for mac, client in self._clients.items()]


def _advertisement(mac: bytes, client: AddressClient) -> bytes:
    """Return a router advertisement to all nodes, sent to one card only: cards have different prefixes."""
    flags = MANAGED | OTHER if client.with_mode(STATEFUL) else OTHER if client.with_mode(STATELESS) else 0
    body = struct.pack("!BBHBBHII", ROUTER_ADVERTISEMENT, 0, 0, packets.TTL, flags, 0, 0, 0)
    body += struct.pack("!BB6s", 1, 1, OWN_MAC)
    prefixes: dict[IPv6Network, bool] = {}
    for one in client.with_mode(SLAAC, STATELESS, STATEFUL):
        prefixes[IPv6Network(one.cidr)] = one.ipv6_mode != STATEFUL
    for prefix, is_made in prefixes.items():
        bits = ON_LINK | (AUTONOMOUS if is_made else 0)
        body += struct.pack("!BBBBIII", 3, 4, prefix.prefixlen, bits, INFINITE_LIFETIME, INFINITE_LIFETIME, 0)
        body += prefix.network_address.packed
    if servers := client.dns_servers():
        body += struct.pack("!BBHI", 25, 1 + len(servers) // 8, 0, INFINITE_LIFETIME) + servers
    return _framed(mac, ALL_NODES.packed, packets.ICMPV6, body)


def _answer(requested: bytes, client: AddressClient) -> bytes:
    """Return the reply to a DHCPv6 message; b"" where there is none."""
    if len(requested) < 4:
        return b""
    kind, options = requested[0], _options(requested[4:])
    if not _is_for_us(kind, options):
        return b""
    answered = [(code, data) for code, data in ((CLIENT_ID, options.get(CLIENT_ID, b"")), (SERVER_ID, DUID)) if data]
    if kind in REQUESTING:
        answered += _given(options, client)
    elif kind == CONFIRM:
        answered.append((STATUS, struct.pack("!H", SUCCESS if _are_own_addresses(options, client) else NOT_ON_LINK)))
    elif kind in (RELEASE, DECLINE):
        answered.append((STATUS, struct.pack("!H", SUCCESS)))
    elif kind != INFORM:
        return b""
    if servers := client.dns_servers():
        answered.append((DNS_SERVERS, servers))
    is_advertise = kind == SOLICIT and RAPID_COMMIT not in options
    if kind == SOLICIT and not is_advertise:
        answered.append((RAPID_COMMIT, b""))
    return bytes([ADVERTISE if is_advertise else REPLY]) + requested[1:4] + _packed(answered)


def _is_for_us(kind: int, options: Mapping[int, bytes]) -> bool:
    """Return whether a message is for this server: some kinds are for a chosen server, others for any."""
    server = options.get(SERVER_ID)
    if server is None and kind in TO_ONE_SERVER:
        return False
    return server in (None, DUID) and (CLIENT_ID in options or kind == INFORM)


def _given(options: Mapping[int, bytes], client: AddressClient) -> list[tuple[int, bytes]]:
    """Return the requested non-temporary addresses (IA_NA)."""
    wanted = options.get(IA_NA, b"")
    if len(wanted) < 12:
        return []
    inner = [
        (IA_ADDRESS, IPv6Address(one.ip_address).packed + struct.pack("!II", LEASE_SECONDS, LEASE_SECONDS))
        for one in client.with_mode(STATEFUL)
    ] or [(STATUS, struct.pack("!H", NO_ADDRESS))]
    half = LEASE_SECONDS // 2
    return [(IA_NA, wanted[:4] + struct.pack("!II", half, half * 8 // 5) + _packed(inner))]


def _are_own_addresses(options: Mapping[int, bytes], client: AddressClient) -> bool:
    own = {IPv6Address(one.ip_address).packed for one in client.with_mode(STATEFUL)}
    inner = _options(options.get(IA_NA, b"")[12:])
    return inner.get(IA_ADDRESS, b"")[:16] in own


def _options(data: bytes) -> dict[int, bytes]:
    """Return the first option of each code; a truncated one is left out."""
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
    packet = packets.packet_ipv6(ROUTER_ADDRESS.packed, target, protocol, payload)
    return packets.frame(mac, OWN_MAC, packets.IPV6, packet)
