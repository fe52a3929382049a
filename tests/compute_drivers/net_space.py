"""A network namespace that a test has for itself, and guests in it that are a few lines of Python on a real tap."""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from uuid import uuid4

from compute_drivers.host_net.host_ports import link_local
from compute_drivers.user_net import dhcp, packets
from compute_drivers.user_net.shared_metadata import METADATA, OWN_MAC
from conductor.core.compute_driver import NetworkPort
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x0002 | 0x1000
SECONDS = 120.0
BROADCAST, ALL_ROUTERS = b"\xff" * 6, bytes.fromhex("333300000002")


@contextmanager
def net_space() -> Iterator[str]:
    """Run this thread and its processes in a network namespace without devices of others; it is removed afterwards."""
    made = NetworkNamespace.create()
    try:
        with made.entered():
            yield made.name
    finally:
        made.delete()


def devices() -> list[str]:
    """Return all devices of this namespace but its own end."""
    output = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True).stdout
    return sorted(link["ifname"] for link in json.loads(output) if link["ifname"] != "lo")


def wait_until_forwarding(device: str) -> None:
    """Wait until the bridge has noticed the device's other end."""

    def is_forwarding() -> bool:
        output = subprocess.run(["ip", "-json", "-details", "link", "show", device], check=True, capture_output=True)
        return bool(json.loads(output.stdout)[0]["linkinfo"]["info_slave_data"]["state"] == "forwarding")

    wait_until(f"the bridge forwards for {device}", is_forwarding)


class Guest:
    """Sends Ethernet frames on the tap of a port, with true addresses by default."""

    def __init__(self, device: str, port: NetworkPort) -> None:
        self.port = port
        self.mac = bytes.fromhex(port.mac_address.replace(":", ""))
        self.address = IPv4Address(port.ip_address).packed
        self._tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self._tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), TAP_WITHOUT_HEADER))

    def close(self) -> None:
        os.close(self._tap)

    def send(self, frame: bytes) -> None:
        os.write(self._tap, frame)

    def frames(self, seconds: float = SECONDS) -> Iterator[bytes]:
        """Yield received frames, until none has come for so long."""
        while select.select([self._tap], [], [], seconds)[0]:
            yield os.read(self._tap, 2048)

    def reaches(self, other: Guest, frame: bytes) -> bool:
        """Return whether the other guest gets this frame.

        Frames keep their order, so the test does not wait for a lost one.
        """
        fence = uuid4().bytes
        self.send(frame)
        self.send(self.who_has(other) + fence)
        came = []
        for one in other.frames():
            if fence in one:
                return frame in came
            came.append(one)
        raise AssertionError("the bridge passes nothing")

    def who_has(self, other: Guest, *, mac: bytes = b"", address: bytes = b"") -> bytes:
        """Return an ARP request, optionally with another sender."""
        mac, address = mac or self.mac, address or self.address
        requested = struct.pack("!HHBBH6s4s6s4s", 1, packets.IPV4, 6, 4, 1, mac, address, bytes(6), other.address)
        return packets.frame(BROADCAST, mac, packets.ARP, requested)

    def ip(self, other: Guest, protocol: int, payload: bytes, *, mac: bytes = b"", address: bytes = b"") -> bytes:
        packet = packets.packet(address or self.address, other.address, protocol, payload)
        return packets.frame(other.mac, mac or self.mac, packets.IPV4, packet)

    def ping(self, other: Guest, mark: bytes, *, mac: bytes = b"", address: bytes = b"") -> bytes:
        return self.ip(other, packets.ICMP, packets.icmp(8, 0, b"\0\1\0\1" + mark), mac=mac, address=address)

    def pong(self, other: Guest, mark: bytes) -> bytes:
        return self.ip(other, packets.ICMP, packets.icmp(0, 0, b"\0\1\0\1" + mark))

    def udp(self, other: Guest, source: int, target: int, mark: bytes) -> bytes:
        return self.ip(other, packets.UDP, packets.udp(source, target, mark))

    def ip6(self, other: Guest, payload: bytes, *, source: str, target: str) -> bytes:
        """ICMPv6, with `payload` from its kind on, two bytes of it for the checksum; to the other's card."""
        ends = IPv6Address(source).packed + IPv6Address(target).packed
        total = packets.checksum(ends + struct.pack("!IHBB", len(payload), 0, 0, 58) + payload)
        whole = payload[:2] + struct.pack("!H", total) + payload[4:]
        head = struct.pack("!IHBB", 6 << 28, len(whole), 58, 255)
        return packets.frame(other.mac, self.mac, 0x86DD, head + ends + whole)

    def ping6(self, other: Guest, mark: bytes, *, source: str, target: str, kind: int = 128) -> bytes:
        return self.ip6(other, bytes((kind, 0, 0, 0, 0, 1, 0, 1)) + mark, source=source, target=target)

    def has_card(self, other: Guest, address: str, *, source: str) -> bytes:
        """Return the answer of IPv6 to the question whose card has the address: this one's."""
        output = bytes((136, 0, 0, 0, 0x60, 0, 0, 0)) + IPv6Address(address).packed + bytes((2, 1)) + self.mac
        return self.ip6(other, output, source=source, target=str(other.port.more[0].ip_address))

    def advertised(self) -> bytes:
        """Return the host's router advertisement, from the flags on."""
        asks = bytes((133, 0, 0, 0, 0, 0, 0, 0))
        own = str(link_local(self.port.mac_address).network_address)
        self.send(ALL_ROUTERS + self.ip6(self, asks, source=own, target="ff02::2")[6:])
        for frame in self.frames():
            if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 134 and frame[:6] == self.mac:
                return frame[54:]
        raise AssertionError("no router advertises anything")

    def asks_for_metadata(self, port: int, *, like: Guest | None = None) -> bytes:
        """Return the first TCP segment of a metadata request, optionally with another sender."""
        sender = like or self
        syn = packets.segment(sender.address, METADATA, packets.Segment(port, 80, 7, 0, packets.SYN, 4096))
        packet = packets.packet(sender.address, METADATA, packets.TCP, syn)
        return packets.frame(OWN_MAC, sender.mac, packets.IPV4, packet)

    def metadata_answer(self) -> int:
        """Return the port that the first answer of the metadata service is for."""
        for frame in self.frames():
            came = packets.frame_of(frame)
            found = packets.packet_of(came.payload) if came is not None and came.kind == packets.IPV4 else None
            output = packets.segment_of(found.payload) if found is not None and found.source == METADATA else None
            if output is not None:
                assert output.flags == packets.SYN | packets.ACK
                return output.target_port
        raise AssertionError("the metadata service does not answer")

    def offered(self) -> bytes:
        """Return the answer of the DHCP server: the guest's address from byte 16 on, options from 240 on."""
        head = struct.pack("!BBBBIHH16x16s192xI", 1, 1, 6, 0, 7, 0, 0x8000, self.mac, 0x63825363)
        requested = packets.udp(68, 67, head + bytes([dhcp.KIND, 1, dhcp.DISCOVER, 55, 5, 1, 3, 6, 12, 121, dhcp.END]))
        packet = packets.packet(bytes(4), BROADCAST[:4], packets.UDP, requested)
        self.send(packets.frame(BROADCAST, self.mac, packets.IPV4, packet))
        for frame in self.frames():
            came = packets.frame_of(frame)
            found = packets.packet_of(came.payload) if came is not None and came.kind == packets.IPV4 else None
            udp = packets.udp_of(found.payload) if found is not None and found.protocol == packets.UDP else None
            # Answers to a guest without an address are broadcast.
            if udp is not None and udp[1] == dhcp.CLIENT_PORT and udp[2][28:34] == self.mac:
                return udp[2]
        raise AssertionError("no server offers an address")
