"""TCP of the metadata service: long answers, losses, limits, and malformed segments."""

from __future__ import annotations

import base64
import ipaddress
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_drivers.metadata_files import metadata_files
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service import packets
from compute_drivers.metadata_service.packets import ACK, FIN, RST, SYN, Segment
from compute_drivers.metadata_service.segment import METADATA, OWN_MAC, MetadataReader, MetadataSegment
from compute_drivers.metadata_service.tcp import (
    IDLE_SECONDS,
    MAX_ATTEMPTS,
    MAX_CONNECTIONS,
    MAX_IN_FLIGHT,
    RETRANSMIT_SECONDS,
)
from conductor.core.compute_driver import NetworkPort
from tests.guests import guest_of, image_of

PORT = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1")
MAC = bytes.fromhex("fa163e000001")
HERE = ipaddress.IPv4Address("10.64.0.3").packed
USER_DATA = bytes(range(256)) * 120  # some twenty segments
GUEST = replace(
    guest_of("6c1a2f6e-7b0e-4d4f-9d39-1a3f0a7a3c55", image_of("i", b"x"), hostname="web-42", ports=(PORT,)),
    user_data=base64.b64encode(USER_DATA).decode(),
)


PAGES = MetadataPages(metadata_files(GUEST), Path("/nonexistent/posted"))


def serving() -> MetadataSegment:
    made = MetadataSegment()
    made.configure({MetadataReader(PORT.mac_address, PORT.ip_address): PAGES})
    return made


def ip(protocol: int, payload: bytes) -> bytes:
    return packets.frame(OWN_MAC, MAC, packets.IPV4, packets.packet(HERE, METADATA, protocol, payload))


def opened(frame: bytes) -> packets.Packet:
    """Return the packet in a frame for the guest, with its checksum verified."""
    found = packets.frame_of(frame)
    assert found is not None
    assert found.source == OWN_MAC
    packet = packets.packet_of(found.payload)
    assert packet is not None
    assert packets.checksum(found.payload[:20]) == 0
    return packet


class Client:
    """A guest's TCP; it stores received data in order, and may lose some of it."""

    def __init__(self, segment: MetadataSegment, port: int = 40000, window: int = 65535, largest: int = 1460) -> None:
        self.segment, self.port, self.window = segment, port, window
        self.now, self.number, self.expected = 100.0, 7, 0
        self.got = b""
        self.is_closed = self.is_refused = False
        self.losing: set[int] = set()
        self.count = self.most_at_once = 0
        self.hears(self.says(SYN, largest=largest))

    def says(self, flags: int, data: bytes = b"", largest: int = 0) -> list[bytes]:
        reply = Segment(self.port, 80, self.number, self.expected, flags, self.window, data, largest)
        self.number += len(data) + bool(flags & (SYN | FIN))
        return self.segment.receive(ip(packets.TCP, packets.segment(HERE, METADATA, reply)), self.now)

    def hears(self, frames: list[bytes]) -> None:
        while frames:
            self.most_at_once = max(self.most_at_once, len(frames))
            is_news = False
            for frame in frames:
                self.count += 1
                if self.count not in self.losing:
                    is_news |= self._hear(opened(frame))
            frames = self.says(ACK) if is_news else []

    def _hear(self, packet: packets.Packet) -> bool:
        came = packets.segment_of(packet.payload)
        assert came is not None
        pseudo = packet.source + packet.target + struct.pack("!BBH", 0, packets.TCP, len(packet.payload))
        assert packets.checksum(pseudo + packet.payload) == 0
        assert (packet.source, packet.target, came.target_port) == (METADATA, HERE, self.port)
        if came.flags & RST:
            self.is_refused = True
            return False
        if came.flags & SYN:
            self.expected = (came.sequence + 1) % (1 << 32)
            return True
        if came.sequence != self.expected:
            return bool(came.data)
        self.got += came.data
        self.is_closed |= bool(came.flags & FIN)
        self.expected = (self.expected + len(came.data) + bool(came.flags & FIN)) % (1 << 32)
        return bool(came.data) or bool(came.flags & FIN)

    def wait(self, seconds: float = RETRANSMIT_SECONDS) -> None:
        self.now += seconds
        self.hears(self.segment.tick(self.now))

    def get(self, path: str) -> bytes:
        self.hears(self.says(ACK, f"GET {path} HTTP/1.0\r\n\r\n".encode()))
        return self.got.partition(b"\r\n\r\n")[2]


class TestTcp:
    def test_a_page(self) -> None:
        client = Client(serving())
        assert client.get("/latest/meta-data/hostname") == b"web-42"
        assert client.is_closed
        client.hears(client.says(ACK | FIN))
        client.hears(client.says(ACK))
        assert client.is_refused  # it is forgotten

    @pytest.mark.parametrize(("window", "largest"), [(65535, 1460), (65535, 0), (2000, 1460), (100, 536), (65535, 1)])
    def test_a_long_one_comes_whole_and_never_too_fast(self, window: int, largest: int) -> None:
        client = Client(serving(), window=window, largest=largest)
        assert client.get("/openstack/latest/user_data") == USER_DATA
        assert client.most_at_once <= MAX_IN_FLIGHT + 1
        assert client.is_closed

    @settings(max_examples=15)
    @given(st.sets(st.integers(1, 40)))
    def test_lost_segments_are_sent_again(self, losing: set[int]) -> None:
        client = Client(serving())
        client.losing = losing
        client.get("/openstack/latest/user_data")
        for _ in range(50):
            client.wait()
        assert client.got.partition(b"\r\n\r\n")[2] == USER_DATA
        assert client.is_closed

    def test_a_receiver_that_does_not_confirm_gets_a_few_attempts(self) -> None:
        client = Client(serving())
        client.losing = set(range(2, 10_000))
        client.get("/latest/meta-data/hostname")
        for _ in range(MAX_ATTEMPTS + 3):
            client.wait()
        client.losing = set()
        client.hears(client.says(ACK))
        assert client.is_refused

    def test_idle_connections_are_dropped(self) -> None:
        client = Client(serving())
        client.wait(IDLE_SECONDS + 1)
        assert client.is_refused

    def test_there_are_only_so_many_at_once(self) -> None:
        segment = serving()
        clients = [Client(segment, port=40000 + number) for number in range(MAX_CONNECTIONS + 1)]
        assert [client.is_refused for client in clients] == [False] * MAX_CONNECTIONS + [True]
        assert clients[0].get("/latest/meta-data/hostname") == b"web-42"

    def test_other_ports_are_closed(self) -> None:
        requested = Segment(40000, 22, 7, 0, SYN, 1000)
        (frame,) = serving().receive(ip(packets.TCP, packets.segment(HERE, METADATA, requested)), 1.0)
        reply = packets.segment_of(opened(frame).payload)
        assert reply is not None
        assert (reply.flags, reply.acknowledged) == (RST | ACK, 8)

    @given(st.binary(max_size=300), st.sampled_from([packets.TCP, 1, 17]))
    def test_noise_within_packets_raises_no_error(self, noise: bytes, protocol: int) -> None:
        segment = serving()
        segment.receive(ip(protocol, noise), 1.0)
        segment.tick(9.0)
