"""Parses and builds Ethernet frames, ARP, IPv4, IPv6, TCP and ICMPv6. Parsers return None for malformed data."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
TCP, ICMPV6 = 6, 58
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_ETHERNET = struct.Struct("!6s6sH")
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_TCP = struct.Struct("!HHIIBBHHH")
FRAGMENT_MASK = 0x3FFF  # more fragments flag and offset
TTL = 64
LINK_HOP_LIMIT = 255  # packets from other links have a lower one


class Frame(NamedTuple):
    target: bytes
    source: bytes
    kind: int
    payload: bytes


class Arp(NamedTuple):
    operation: int
    source_mac: bytes
    source: bytes
    target: bytes


class Packet(NamedTuple):
    """An IPv4 or IPv6 packet; `whole` includes its header."""

    source: bytes
    target: bytes
    protocol: int
    payload: bytes
    whole: bytes


@dataclass(frozen=True)
class Segment:
    """A TCP segment."""

    source_port: int
    target_port: int
    sequence: int
    acknowledged: int
    flags: int
    window: int
    data: bytes = b""
    largest: int = 0  # the maximum segment size option, 0 without it


def frame_of(data: bytes) -> Frame | None:
    if len(data) < _ETHERNET.size:
        return None
    target, source, kind = _ETHERNET.unpack_from(data)
    return Frame(target, source, kind, data[_ETHERNET.size :])


def frame(target: bytes, source: bytes, kind: int, payload: bytes) -> bytes:
    return _ETHERNET.pack(target, source, kind) + payload


def arp_of(data: bytes) -> Arp | None:
    if len(data) < _ARP.size:
        return None
    hardware, protocol, hardware_size, size, operation, mac, source, _, target = _ARP.unpack_from(data)
    if (hardware, protocol, hardware_size, size) != (1, IPV4, 6, 4):
        return None
    return Arp(operation, mac, source, target)


def arp_answer(mac: bytes, address: bytes, requested: Arp) -> bytes:
    return _ARP.pack(1, IPV4, 6, 4, 2, mac, address, requested.source_mac, requested.source)


def packet_of(data: bytes) -> Packet | None:
    if len(data) < _IPV4.size:
        return None
    first, _, total, _, fragment, _, protocol, _, source, target = _IPV4.unpack_from(data)
    head = (first & 0x0F) * 4
    if first >> 4 != 4 or head < _IPV4.size or not head <= total <= len(data) or fragment & FRAGMENT_MASK:
        return None
    return Packet(source, target, protocol, data[head:total], data[:total])


def packet(source: bytes, target: bytes, protocol: int, payload: bytes) -> bytes:
    total = _IPV4.size + len(payload)
    head = _IPV4.pack(0x45, 0, total, 0, 0x4000, TTL, protocol, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def packet_of_ipv6(data: bytes) -> Packet | None:
    if len(data) < _IPV6.size:
        return None
    first, length, protocol, _, source, target = _IPV6.unpack_from(data)
    total = _IPV6.size + length
    if first >> 28 != 6 or total > len(data):
        return None
    return Packet(source, target, protocol, data[_IPV6.size : total], data[:total])


def is_from_link(packet: Packet) -> bool:
    """Return whether an IPv6 packet was sent on this link."""
    return packet.whole[7] == LINK_HOP_LIMIT


def packet_ipv6(source: bytes, target: bytes, protocol: int, payload: bytes) -> bytes:
    """Build a packet, with the checksum of ICMPv6; TCP segments have theirs already."""
    if protocol == ICMPV6:
        pseudo = source + target + struct.pack("!IHBB", len(payload), 0, 0, protocol)
        payload = payload[:2] + struct.pack("!H", checksum(pseudo + payload)) + payload[4:]
    return _IPV6.pack(6 << 28, len(payload), protocol, LINK_HOP_LIMIT, source, target) + payload


def segment_of(data: bytes) -> Segment | None:
    if len(data) < _TCP.size:
        return None
    source, target, sequence, acknowledged, offset, flags, window, _, _ = _TCP.unpack_from(data)
    head = (offset >> 4) * 4
    if not _TCP.size <= head <= len(data):
        return None
    largest = _largest(data[_TCP.size : head])
    return Segment(source, target, sequence, acknowledged, flags, window, data[head:], largest)


def segment(source: bytes, target: bytes, wanted: Segment) -> bytes:
    """Build a TCP segment. The checksum includes the addresses `source` and `target`."""
    options = struct.pack("!BBH", 2, 4, wanted.largest) if wanted.largest else b""
    head = _TCP.pack(
        wanted.source_port,
        wanted.target_port,
        wanted.sequence,
        wanted.acknowledged,
        (_TCP.size + len(options)) // 4 << 4,
        wanted.flags,
        wanted.window,
        0,
        0,
    )
    whole = head + options + wanted.data
    pseudo = source + target + struct.pack("!BBH", 0, TCP, len(whole))
    return whole[:16] + struct.pack("!H", checksum(pseudo + whole)) + whole[18:]


def checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _largest(options: bytes) -> int:
    place = 0
    while place < len(options) and options[place] != 0:
        if options[place] == 1:
            place += 1
            continue
        size = options[place + 1] if place + 1 < len(options) else 0
        if size < 2 or place + size > len(options):
            return 0
        if options[place] == 2 and size == 4:
            return int.from_bytes(options[place + 2 : place + 4], "big")
        place += size
    return 0
