"""The agent's user-mode network of a port, frame by frame: addresses, routes, the metadata service, and no more."""

from __future__ import annotations

import base64
import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_drivers.metadata_files import metadata_files
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.user_net import dhcp, packets
from compute_drivers.user_net.packets import ACK, FIN, RST, SYN, Segment
from compute_drivers.user_net.segment import METADATA, NEIGHBOR_MAC, GuestSegment
from compute_drivers.user_net.tcp import IDLE_SECONDS, MAX_ATTEMPTS, MAX_CONNECTIONS, MAX_IN_FLIGHT, RETRANSMIT_SECONDS
from compute_drivers.user_net.wires import WirePaths, Wires
from conductor.core.compute_driver import NetworkPort
from tests.guests import guest_of, image_of
from tests.waiting import WAIT_SECONDS

PORT = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1")
MAC = bytes.fromhex("fa163e000001")
HERE, GATEWAY, ELSEWHERE = (ipaddress.IPv4Address(one).packed for one in ("10.64.0.3", "10.64.0.1", "192.0.2.9"))
USER_DATA = bytes(range(256)) * 120  # some twenty segments
GUEST = replace(
    guest_of("6c1a2f6e-7b0e-4d4f-9d39-1a3f0a7a3c55", image_of("i", b"x"), hostname="web-42", ports=(PORT,)),
    user_data=base64.b64encode(USER_DATA).decode(),
)


PAGES = MetadataPages(metadata_files(GUEST), Path("/nonexistent/posted"))


def segment_of(port: NetworkPort = PORT, hostname: str = "web-42") -> GuestSegment:
    return GuestSegment(port, hostname, PAGES)


def ip(target: bytes, protocol: int, payload: bytes, *, source: bytes = HERE, mac: bytes = MAC) -> bytes:
    return packets.frame(NEIGHBOR_MAC, mac, packets.IPV4, packets.packet(source, target, protocol, payload))


def opened(frame: bytes) -> packets.Packet:
    """Return the packet in a frame for the guest, with its checksum verified."""
    found = packets.frame_of(frame)
    assert found is not None
    assert found.source == NEIGHBOR_MAC
    packet = packets.packet_of(found.payload)
    assert packet is not None
    assert packets.checksum(found.payload[:20]) == 0
    return packet


class Client:
    """A guest's TCP; it stores received data in order, and may lose some of it."""

    def __init__(self, segment: GuestSegment, port: int = 40000, window: int = 65535, largest: int = 1460) -> None:
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
        return self.segment.receive(ip(METADATA, packets.TCP, packets.segment(HERE, METADATA, reply)), self.now)

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
        client = Client(segment_of())
        assert client.get("/latest/meta-data/hostname") == b"web-42"
        assert client.is_closed
        client.hears(client.says(ACK | FIN))
        client.hears(client.says(ACK))
        assert client.is_refused  # it is forgotten

    @pytest.mark.parametrize(("window", "largest"), [(65535, 1460), (65535, 0), (2000, 1460), (100, 536), (65535, 1)])
    def test_a_long_one_comes_whole_and_never_too_fast(self, window: int, largest: int) -> None:
        client = Client(segment_of(), window=window, largest=largest)
        assert client.get("/openstack/latest/user_data") == USER_DATA
        assert client.most_at_once <= MAX_IN_FLIGHT + 1
        assert client.is_closed

    @settings(max_examples=15)
    @given(st.sets(st.integers(1, 40)))
    def test_lost_segments_are_sent_again(self, losing: set[int]) -> None:
        client = Client(segment_of())
        client.losing = losing
        client.get("/openstack/latest/user_data")
        for _ in range(50):
            client.wait()
        assert client.got.partition(b"\r\n\r\n")[2] == USER_DATA
        assert client.is_closed

    def test_a_receiver_that_does_not_confirm_gets_a_few_attempts(self) -> None:
        client = Client(segment_of())
        client.losing = set(range(2, 10_000))
        client.get("/latest/meta-data/hostname")
        for _ in range(MAX_ATTEMPTS + 3):
            client.wait()
        client.losing = set()
        client.hears(client.says(ACK))
        assert client.is_refused

    def test_idle_connections_are_dropped(self) -> None:
        client = Client(segment_of())
        client.wait(IDLE_SECONDS + 1)
        assert client.is_refused

    def test_there_are_only_so_many_at_once(self) -> None:
        segment = segment_of()
        clients = [Client(segment, port=40000 + number) for number in range(MAX_CONNECTIONS + 1)]
        assert [client.is_refused for client in clients] == [False] * MAX_CONNECTIONS + [True]
        assert clients[0].get("/latest/meta-data/hostname") == b"web-42"

    def test_other_ports_are_closed(self) -> None:
        requested = Segment(40000, 22, 7, 0, SYN, 1000)
        for target in (METADATA, GATEWAY):
            (frame,) = segment_of().receive(ip(target, packets.TCP, packets.segment(HERE, target, requested)), 1.0)
            reply = packets.segment_of(opened(frame).payload)
            assert reply is not None
            assert (reply.flags, reply.acknowledged) == (RST | ACK, 8)


class TestDhcp:
    def ask(self, kind: int, port: NetworkPort = PORT, **options: bytes) -> dict[int, bytes]:
        numbers = {"wanted": dhcp.WANTED, "server": dhcp.SERVER}
        encoded = b"".join(bytes([numbers[name], len(data)]) + data for name, data in options.items())
        head = struct.pack("!BBBBIHH16s16s64s128s", 1, 1, 6, 0, 77, 0, 0, b"", MAC, b"", b"")
        requested = head + b"\x63\x82\x53\x63" + bytes([dhcp.KIND, 1, kind]) + encoded + b"\xff"
        sent = ip(packets.BROADCAST_IP, packets.UDP, packets.udp(68, 67, requested), source=bytes(4))
        frames = segment_of(port).receive(sent, 1.0)
        if not frames:
            return {}
        datagram = packets.udp_of(opened(frames[0]).payload)
        assert datagram is not None
        answer = datagram[2]
        assert (answer[0], answer[4:8], answer[28:34]) == (2, head[4:8], MAC)
        return {0: answer[16:20], **dhcp._options(answer[240:])}

    def test_dhcp_offers_and_acknowledges_the_address_of_the_port(self) -> None:
        for kind, reply in ((dhcp.DISCOVER, dhcp.OFFER), (dhcp.REQUEST, dhcp.ACK)):
            answer = self.ask(kind, wanted=HERE)
            assert (answer[0], answer[dhcp.KIND]) == (HERE, bytes([reply]))
            assert answer[dhcp.MASK] == bytes([255, 255, 240, 0])
            assert (answer[dhcp.ROUTER], answer[dhcp.SERVER]) == (GATEWAY, GATEWAY)
            assert answer[dhcp.NAME] == b"web-42"
            assert answer[dhcp.ROUTES] == b"\x20" + METADATA + GATEWAY + b"\0" + GATEWAY

    def test_another_address_is_refused(self) -> None:
        answer = self.ask(dhcp.REQUEST, wanted=GATEWAY)
        assert (answer[0], answer[dhcp.KIND]) == (bytes(4), bytes([dhcp.NAK]))
        assert dhcp.LEASE not in answer

    def test_dhcp_requests_to_another_server_are_not_answered(self) -> None:
        assert self.ask(dhcp.REQUEST, wanted=HERE, server=ELSEWHERE) == {}
        assert self.ask(4, wanted=HERE) == {}

    def test_a_network_without_a_gateway_has_a_way_to_the_metadata_only(self) -> None:
        answer = self.ask(dhcp.DISCOVER, replace(PORT, gateway_ip=""))
        server = ipaddress.IPv4Address("10.64.15.254").packed
        assert dhcp.ROUTER not in answer
        assert answer[dhcp.ROUTES] == b"\x20" + METADATA + server


class TestIgnoredFrames:
    asked = Segment(40000, 80, 7, 0, SYN, 1000)

    @pytest.mark.parametrize(
        "frame",
        [
            ip(METADATA, packets.TCP, packets.segment(HERE, METADATA, asked), mac=b"\xfa\x16\x3e\0\0\2"),
            ip(METADATA, packets.TCP, packets.segment(ELSEWHERE, METADATA, asked), source=ELSEWHERE),
            b"",
            packets.frame(NEIGHBOR_MAC, MAC, 0x86DD, bytes(60)),
        ],
        ids=["another card", "another address", "nothing", "IPv6"],
    )
    def test_frames_of_other_addresses_or_protocols_get_no_answer(self, frame: bytes) -> None:
        assert segment_of().receive(frame, 1.0) == []

    @given(st.binary(max_size=120), st.sampled_from([packets.ARP, packets.IPV4]))
    def test_random_frames_raise_no_error(self, noise: bytes, kind: int) -> None:
        segment_of().receive(packets.frame(NEIGHBOR_MAC, MAC, kind, noise), 1.0)

    @given(st.binary(max_size=300), st.sampled_from([packets.TCP, packets.UDP, packets.ICMP]))
    def test_noise_within_packets(self, noise: bytes, protocol: int) -> None:
        segment = segment_of()
        segment.receive(ip(METADATA, protocol, noise), 1.0)
        segment.receive(ip(METADATA, packets.UDP, packets.udp(68, 67, noise)), 1.0)
        segment.tick(9.0)


def test_arp_is_answered_for_the_gateway_and_the_metadata_service_only() -> None:
    def requested(target: bytes, source: bytes = HERE) -> list[bytes]:
        reply = struct.pack("!HHBBH6s4s6s4s", 1, packets.IPV4, 6, 4, 1, MAC, source, bytes(6), target)
        return segment_of().receive(packets.frame(packets.BROADCAST, MAC, packets.ARP, reply), 1.0)

    for target in (GATEWAY, METADATA):
        (frame,) = requested(target)
        found = packets.frame_of(frame)
        assert found is not None
        answer = packets.arp_of(found.payload)
        assert answer is not None
        assert (answer.operation, answer.source_mac, answer.source, answer.target) == (2, NEIGHBOR_MAC, target, HERE)
    assert requested(HERE) == requested(ELSEWHERE) == requested(GATEWAY, ELSEWHERE) == []


def test_the_gateway_answers_an_echo_and_says_that_nothing_else_can_be_reached() -> None:
    echo = packets.icmp(8, 0, b"\0\1\0\1hello")
    (frame,) = segment_of().receive(ip(GATEWAY, packets.ICMP, echo), 1.0)
    assert opened(frame).payload == packets.icmp(0, 0, b"\0\1\0\1hello")
    for protocol, target in ((packets.UDP, GATEWAY), (packets.TCP, ELSEWHERE), (packets.ICMP, ELSEWHERE)):
        (frame,) = segment_of().receive(ip(target, protocol, echo), 1.0)
        assert opened(frame).payload[:2] == bytes([3, 13])


class TestWires:
    @pytest.fixture
    def wires(self) -> Iterator[Wires]:
        made = Wires()
        yield made
        made.stop()

    @staticmethod
    def guest(folder: Path) -> tuple[socket.socket, WirePaths]:
        paths = WirePaths(folder / "theirs", folder / "ours")
        guest = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        guest.settimeout(WAIT_SECONDS)
        guest.bind(str(paths.theirs))
        return guest, paths

    def test_a_guest_is_answered_also_after_a_restart_and_no_more_once_it_is_gone(
        self, wires: Wires, tmp_path: Path
    ) -> None:
        guest, paths = self.guest(tmp_path)
        echo = ip(GATEWAY, packets.ICMP, packets.icmp(8, 0, b"\0\1\0\1"))
        wires.open("u", "p1", paths, segment_of())
        wires.open("u", "p1", paths, segment_of())  # configured again
        for _ in range(2):
            guest.sendto(b"noise", str(paths.ours))
            guest.sendto(echo, str(paths.ours))
            answer = guest.recv(2048)
            assert opened(answer).payload[:1] == b"\0"
            reply = {"tx_packets": 2, "tx_octets": len(b"noise") + len(echo)}
            assert wires.counters("u") == {"p1": {**reply, "rx_packets": 1, "rx_octets": len(answer), "rx_drop": 0}}
            assert wires.counters("other") == {}
            wires.stop()
            wires.open("u", "p1", paths, segment_of())
        wires.close("u")
        with pytest.raises(OSError):
            guest.sendto(echo, str(paths.ours))
        assert not paths.ours.exists()
        guest.close()

    def test_a_guest_that_sends_too_many_frames_does_not_block_others(
        self, wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("compute_drivers.user_net.wires.MAX_FRAMES_PER_TICK", 20)
        monkeypatch.setattr("compute_drivers.user_net.wires.TICK_SECONDS", 0.3)
        folders = [tmp_path / name for name in ("loud", "quiet")]
        for folder in folders:
            folder.mkdir()
        (loud, first), (quiet, second) = map(self.guest, folders)
        wires.open("loud", "p1", first, segment_of())
        wires.open("quiet", "p1", second, segment_of())
        echo = ip(GATEWAY, packets.ICMP, packets.icmp(8, 0, b"\0\1\0\1"))
        loud.setblocking(False)
        sent = 0
        while sent < 40:  # those that are not delivered now are delivered later
            try:
                loud.sendto(b"noise", str(first.ours))
                sent += 1
            except BlockingIOError:  # not delivered now
                quiet.sendto(echo, str(second.ours))
                assert opened(quiet.recv(2048)).payload[:1] == b"\0"
        loud.close()
        quiet.close()
