"""The metadata service of a network that guests share: each reads its own pages, known by its card and address."""

from __future__ import annotations

import ipaddress
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
        packet = packets.packet_of(frame.payload) if frame.kind == packets.IPV4 else None
        if packet is None or packet.target != METADATA or packet.protocol != packets.TCP:
            return []
        served = self._served.get((frame.source, packet.source))
        came = packets.segment_of(packet.payload)
        if served is None or came is None:
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
    return bytes.fromhex(reader.mac_address.replace(":", "")), ipaddress.IPv4Address(reader.ip_address).packed


def _serving(pages: GuestPages) -> _Served:
    return _Served(pages, TcpServer(guest_metadata.TCP_PORT, lambda: Exchange(pages)))


def _framed(mac: bytes, address: bytes, wanted: packets.Segment) -> bytes:
    said = packets.packet(METADATA, address, packets.TCP, packets.segment(METADATA, address, wanted))
    return packets.frame(mac, OWN_MAC, packets.IPV4, said)
