"""The metadata service of a network with several guests, frame by frame: each reads only its own pages."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service import packets
from compute_drivers.metadata_service.packets import ACK, RST, SYN, Segment
from compute_drivers.metadata_service.segment import METADATA, METADATA_IPV6, OWN_MAC, MetadataReader, MetadataSegment

ANA, BO = MetadataReader("fa:16:3e:00:00:03", "10.64.0.3"), MetadataReader("fa:16:3e:00:00:04", "10.64.0.4")
PAGE = "openstack/latest/meta_data.json"


def mac_of(reader: MetadataReader) -> bytes:
    return bytes.fromhex(reader.mac_address.replace(":", ""))


def pages_of(name: str) -> MetadataPages:
    return MetadataPages({PAGE: name.encode()}, Path("/nonexistent/posted"))


def serving() -> MetadataSegment:
    made = MetadataSegment()
    made.configure({ANA: pages_of("ana's"), BO: pages_of("bo's")})
    return made


class Client:
    """A guest that requests one page; `reader` is the identity that it claims."""

    def __init__(self, segment: MetadataSegment, reader: MetadataReader, port: int = 80) -> None:
        self.segment, self.reader, self.port = segment, reader, port
        self.number = 7

    def says(self, flags: int, data: bytes = b"", acknowledged: int = 0) -> list[Segment]:
        source = IPv4Address(self.reader.ip_address).packed
        content = Segment(40000, self.port, self.number, acknowledged, flags, 65535, data)
        packet = packets.packet(source, METADATA, packets.TCP, packets.segment(source, METADATA, content))
        self.number += len(data) + bool(flags & SYN)
        frames = self.segment.receive(packets.frame(OWN_MAC, mac_of(self.reader), packets.IPV4, packet), 1.0)
        return [self.heard(frame, source) for frame in frames]

    def heard(self, data: bytes, address: bytes) -> Segment:
        frame = packets.frame_of(data)
        assert frame is not None
        assert (frame.target, frame.source) == (mac_of(self.reader), OWN_MAC)
        packet = packets.packet_of(frame.payload)
        assert packet is not None
        assert (packet.source, packet.target) == (METADATA, address)
        found = packets.segment_of(packet.payload)
        assert found is not None
        return found

    def begins(self) -> int:
        (welcome,) = self.says(SYN)
        assert welcome.flags == SYN | ACK
        return welcome.sequence + 1

    def asks(self, acknowledged: int) -> bytes:
        requested = f"GET /{PAGE} HTTP/1.0\r\n\r\n".encode()
        return b"".join(one.data for one in self.says(ACK, requested, acknowledged % (1 << 32)))


def test_each_reads_its_own_pages_at_the_same_address() -> None:
    segment = serving()
    for reader, words in ((ANA, b"ana's"), (BO, b"bo's")):
        client = Client(segment, reader)
        assert client.asks(client.begins()).endswith(words)


def test_unknown_or_half_forged_senders_get_no_answer() -> None:
    segment = serving()
    for reader in (
        MetadataReader("fa:16:3e:00:00:05", "10.64.0.5"),
        MetadataReader(ANA.mac_address, BO.ip_address),
        MetadataReader(BO.mac_address, ANA.ip_address),
    ):
        assert Client(segment, reader).says(SYN) == []
    (refused,) = Client(segment, ANA, port=22).says(SYN)
    assert refused.flags & RST


def test_connections_continue_when_readers_are_added_and_end_when_their_reader_is_removed() -> None:
    segment, mine, fresh = MetadataSegment(), pages_of("ana's"), pages_of("bo's")
    segment.configure({ANA: mine})
    client = Client(segment, ANA)
    begun = client.begins()
    segment.configure({ANA: mine, BO: fresh})
    assert client.asks(begun).endswith(b"ana's")
    segment.configure({BO: fresh})
    assert client.says(ACK) == []


def test_a_reader_finds_it_by_its_address_and_others_do_not() -> None:
    def requested(reader: MetadataReader, target: bytes = METADATA) -> list[bytes]:
        mac, address = mac_of(reader), IPv4Address(reader.ip_address).packed
        content = struct.pack("!HHBBH6s4s6s4s", 1, packets.IPV4, 6, 4, 1, mac, address, bytes(6), target)
        return serving().receive(packets.frame(b"\xff" * 6, mac, packets.ARP, content), 1.0)

    (frame,) = requested(ANA)
    found = packets.frame_of(frame)
    assert found is not None
    answer = packets.arp_of(found.payload)
    assert answer is not None
    assert (found.target, answer.operation, answer.source_mac, answer.source) == (mac_of(ANA), 2, OWN_MAC, METADATA)
    assert requested(ANA, IPv4Address(BO.ip_address).packed) == []
    assert requested(MetadataReader("fa:16:3e:00:00:05", "10.64.0.5")) == []


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=120), st.sampled_from([packets.ARP, packets.IPV4, packets.IPV6]))
def test_random_frames_raise_no_error(noise: bytes, kind: int) -> None:
    segment = serving()
    assert segment.receive(noise, 1.0) == []
    segment.receive(packets.frame(OWN_MAC, mac_of(ANA), kind, noise), 1.0)
    segment.configure({MetadataReader(ANA.mac_address, "fd00::3"): pages_of("ana's")})
    for protocol in (packets.TCP, packets.ICMPV6):
        content = packets.packet_ipv6(IPv6Address("fd00::3").packed, METADATA_IPV6, protocol, noise.ljust(8, b"\0"))
        segment.receive(packets.frame(OWN_MAC, mac_of(ANA), packets.IPV6, content), 1.0)
    assert segment.tick(9.0) == []
