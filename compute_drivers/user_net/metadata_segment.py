"""The metadata service of a network that guests share: each reads its own pages, known by its card and address."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from compute_drivers import guest_metadata
from compute_drivers.guest_metadata import GuestPages
from compute_drivers.user_net import packets
from compute_drivers.user_net.http import Exchange
from compute_drivers.user_net.tcp import TcpServer, refusal

# Locally administered; other networks have one of their own by the same name.
OWN_MAC = b"\x02nvmd\x01"
METADATA = ipaddress.IPv4Address(guest_metadata.ADDRESS).packed
METADATA_IPV6 = ipaddress.IPv6Address(guest_metadata.ADDRESS_IPV6).packed
# Of IPv6: whose card has an address, and whose it is.
SOLICIT, ADVERTISE, SOLICITED_OVERRIDE = 135, 136, 0x60000000
UNSPECIFIED = bytes(4)


@dataclass(frozen=True)
class Reader:
    """Who a guest is in this network. That nobody else speaks so is seen to before a frame comes here."""

    mac_address: str
    ip_address: str


@dataclass(frozen=True)
class _Served:
    pages: GuestPages
    tcp: TcpServer


class MetadataSegment:
    """Frame in, frames out. Who is no reader is not heard, and there is no other address than the service's."""

    def __init__(self) -> None:
        self._served: dict[tuple[bytes, bytes], _Served] = {}

    def tell(self, pages: Mapping[Reader, GuestPages]) -> None:
        """These from now on; who has the same pages as before is not interrupted."""
        before, now = self._served, {}
        for reader, wanted in pages.items():
            key = _key(reader)
            known = before.get(key)
            now[key] = known if known is not None and known.pages is wanted else _serving(wanted)
        self._served = now  # at once: another thread reads it

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        if frame is None:
            return []
        if frame.kind == packets.ARP:
            return self._arp(frame)
        read = {packets.IPV4: packets.packet_of, packets.IPV6: packets.packet_of_ipv6}.get(frame.kind)
        packet = read(frame.payload) if read else None
        served = self._served.get((frame.source, packet.source)) if packet is not None else None
        if packet is None or served is None:
            return []
        if frame.kind == packets.IPV6 and packet.protocol == packets.ICMPV6:
            return _has_card(frame.source, packet)
        came = packets.segment_of(packet.payload) if packet.protocol == packets.TCP else None
        if came is None or packet.target not in (METADATA, METADATA_IPV6):
            return []
        if came.target_port != guest_metadata.TCP_PORT:
            said = [] if came.flags & packets.RST else [refusal(came)]
        else:
            said = served.tcp.receive(came, now)
        return [_framed(frame.source, packet.source, one) for one in said]

    def turn(self, now: float) -> list[bytes]:
        """What is due by the clock."""
        served = self._served
        return [_framed(mac, address, one) for (mac, address), found in served.items() for one in found.tcp.turn(now)]

    def _arp(self, frame: packets.Frame) -> list[bytes]:
        asked = packets.arp_of(frame.payload)
        if asked is None or asked.operation != 1 or asked.target != METADATA or asked.source_mac != frame.source:
            return []
        if all(frame.source != mac or asked.source not in (address, UNSPECIFIED) for mac, address in self._served):
            return []
        said = packets.arp_answer(OWN_MAC, asked.target, asked)
        return [packets.frame(frame.source, OWN_MAC, packets.ARP, said)]


def _key(reader: Reader) -> tuple[bytes, bytes]:
    return bytes.fromhex(reader.mac_address.replace(":", "")), ipaddress.ip_address(reader.ip_address).packed


def _has_card(mac: bytes, asked: packets.Packet) -> list[bytes]:
    """The answer of IPv6 to who asks where the service is."""
    if not packets.is_near(asked) or asked.payload[:2] != bytes((SOLICIT, 0)) or asked.payload[8:24] != METADATA_IPV6:
        return []
    said = struct.pack("!BBHI", ADVERTISE, 0, 0, SOLICITED_OVERRIDE) + METADATA_IPV6 + bytes((2, 1)) + OWN_MAC
    packet = packets.packet_ipv6(METADATA_IPV6, asked.source, packets.ICMPV6, said)
    return [packets.frame(mac, OWN_MAC, packets.IPV6, packet)]


def _serving(pages: GuestPages) -> _Served:
    return _Served(pages, TcpServer(guest_metadata.TCP_PORT, lambda: Exchange(pages)))


def _framed(mac: bytes, address: bytes, wanted: packets.Segment) -> bytes:
    if len(address) == len(METADATA):
        said = packets.packet(METADATA, address, packets.TCP, packets.segment(METADATA, address, wanted))
        return packets.frame(mac, OWN_MAC, packets.IPV4, said)
    segment = packets.segment(METADATA_IPV6, address, wanted)
    said = packets.packet_ipv6(METADATA_IPV6, address, packets.TCP, segment)
    return packets.frame(mac, OWN_MAC, packets.IPV6, said)
