"""Metadata service of a network with several guests: each reads its own pages, identified by MAC and address."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from compute_drivers import metadata_pages
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service import packets
from compute_drivers.metadata_service.http import Exchange
from compute_drivers.metadata_service.tcp import TcpServer, refusal
from conductor.core.ovn_names import METADATA_MAC

# Locally administered; every network has a service with this address.
OWN_MAC = bytes.fromhex(METADATA_MAC.replace(":", ""))
METADATA = ipaddress.IPv4Address(metadata_pages.ADDRESS).packed
METADATA_IPV6 = ipaddress.IPv6Address(metadata_pages.ADDRESS_IPV6).packed
# ICMPv6 neighbor discovery.
NEIGHBOR_SOLICITATION, NEIGHBOR_ADVERTISEMENT, SOLICITED_OVERRIDE = 135, 136, 0x60000000
UNSPECIFIED = bytes(4)


@dataclass(frozen=True)
class MetadataReader:
    """A guest's identity in this network. Anti-spoofing rules have checked it before a frame arrives here."""

    mac_address: str
    ip_address: str


@dataclass(frozen=True)
class _GuestService:
    pages: MetadataPages
    tcp: TcpServer


class MetadataSegment:
    """Answers frames with frames; frames from unknown guests, or to other addresses, are ignored."""

    def __init__(self) -> None:
        self._services: dict[tuple[bytes, bytes], _GuestService] = {}

    def configure(self, pages: Mapping[MetadataReader, MetadataPages]) -> None:
        """Serve these pages; connections of readers with unchanged pages continue."""
        before, now = self._services, {}
        for reader, wanted in pages.items():
            key = _key(reader)
            known = before.get(key)
            now[key] = known if known is not None and known.pages is wanted else _make_service(wanted)
        self._services = now  # replaced atomically: another thread reads it

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        if frame is None:
            return []
        if frame.kind == packets.ARP:
            return self._arp(frame)
        read = {packets.IPV4: packets.packet_of, packets.IPV6: packets.packet_of_ipv6}.get(frame.kind)
        packet = read(frame.payload) if read else None
        service = self._services.get((frame.source, packet.source)) if packet is not None else None
        if packet is None or service is None:
            return []
        if frame.kind == packets.IPV6 and packet.protocol == packets.ICMPV6:
            return _neighbor_advertisement(frame.source, packet)
        came = packets.segment_of(packet.payload) if packet.protocol == packets.TCP else None
        if came is None or packet.target not in (METADATA, METADATA_IPV6):
            return []
        if came.target_port != metadata_pages.TCP_PORT:
            reply = [] if came.flags & packets.RST else [refusal(came)]
        else:
            reply = service.tcp.receive(came, now)
        return [_framed(frame.source, packet.source, one) for one in reply]

    def tick(self, now: float) -> list[bytes]:
        """Return the frames that are due."""
        services = self._services
        return [_framed(mac, address, one) for (mac, address), found in services.items() for one in found.tcp.tick(now)]

    def _arp(self, frame: packets.Frame) -> list[bytes]:
        requested = packets.arp_of(frame.payload)
        if (
            requested is None
            or requested.operation != 1
            or requested.target != METADATA
            or requested.source_mac != frame.source
        ):
            return []
        if all(
            frame.source != mac or requested.source not in (address, UNSPECIFIED) for mac, address in self._services
        ):
            return []
        reply = packets.arp_answer(OWN_MAC, requested.target, requested)
        return [packets.frame(frame.source, OWN_MAC, packets.ARP, reply)]


def _key(reader: MetadataReader) -> tuple[bytes, bytes]:
    return bytes.fromhex(reader.mac_address.replace(":", "")), ipaddress.ip_address(reader.ip_address).packed


def _neighbor_advertisement(mac: bytes, requested: packets.Packet) -> list[bytes]:
    """Answer a neighbor solicitation for the service's address."""
    if (
        not packets.is_from_link(requested)
        or requested.payload[:2] != bytes((NEIGHBOR_SOLICITATION, 0))
        or requested.payload[8:24] != METADATA_IPV6
    ):
        return []
    reply = (
        struct.pack("!BBHI", NEIGHBOR_ADVERTISEMENT, 0, 0, SOLICITED_OVERRIDE) + METADATA_IPV6 + bytes((2, 1)) + OWN_MAC
    )
    packet = packets.packet_ipv6(METADATA_IPV6, requested.source, packets.ICMPV6, reply)
    return [packets.frame(mac, OWN_MAC, packets.IPV6, packet)]


def _make_service(pages: MetadataPages) -> _GuestService:
    return _GuestService(pages, TcpServer(metadata_pages.TCP_PORT, lambda: Exchange(pages)))


def _framed(mac: bytes, address: bytes, wanted: packets.Segment) -> bytes:
    if len(address) == len(METADATA):
        reply = packets.packet(METADATA, address, packets.TCP, packets.segment(METADATA, address, wanted))
        return packets.frame(mac, OWN_MAC, packets.IPV4, reply)
    segment = packets.segment(METADATA_IPV6, address, wanted)
    reply = packets.packet_ipv6(METADATA_IPV6, address, packets.TCP, segment)
    return packets.frame(mac, OWN_MAC, packets.IPV6, reply)
