"""The metadata service on real taps: it answers the guests of its network, and one that floods it delays no other."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from compute_drivers import taps
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service import frame_loop, packets
from compute_drivers.metadata_service.segment import METADATA, OWN_MAC
from compute_drivers.metadata_service.service import MetadataClient, MetadataService, link_local
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import DriverError
from tests.compute_drivers.net_space import devices, net_space
from tests.waiting import WAIT_SECONDS

ANA = NetworkPort("p1", "private", "fa:16:3e:00:00:03", "10.64.0.3", 20, "10.64.0.0/20")
PAGES = MetadataPages({}, Path("/nonexistent/posted"))
ETHERNET = 3  # ETH_P_ALL


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with net_space():
        made = MetadataService(lambda _, device: taps.start(device))
        yield made
        made.stop()
        assert devices() == []


class Wire:
    """The other end of a service's tap, where guests are."""

    def __init__(self, device: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERNET))
        self._socket.bind((device, 0))

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def asks(self) -> None:
        """Ask for the service's MAC address, as ana."""
        mac, address = bytes.fromhex(ANA.mac_address.replace(":", "")), IPv4Address(ANA.ip_address).packed
        asked = struct.pack("!HHBBH6s4s6s4s", 1, packets.IPV4, 6, 4, 1, mac, address, bytes(6), METADATA)
        self.send(packets.frame(b"\xff" * 6, mac, packets.ARP, asked))

    def is_answered(self) -> bool:
        deadline = time.monotonic() + WAIT_SECONDS
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            frame = packets.frame_of(self._socket.recv(2048))
            if frame is not None and (frame.source, frame.kind) == (OWN_MAC, packets.ARP):
                return True
        return False

    def close(self) -> None:
        self._socket.close()


def test_a_network_is_served_from_its_first_guest_to_its_last_and_over_a_restart(service: MetadataService) -> None:
    client = MetadataClient(ANA, PAGES)
    for _ in range(2):
        service.serve("net", "nq1", [client])
        service.serve("net", "nq1", [client])  # another port was plugged
        wire = Wire("nq1")
        wire.send(b"noise".ljust(14))
        wire.asks()
        assert wire.is_answered()
        wire.close()
        service.stop()
        assert devices() == []
    service.serve("net", "nq1", [client])
    service.end("nq1")
    assert devices() == []


def test_a_network_that_cannot_be_attached_has_no_service() -> None:
    def refuse(network: str, device: str) -> None:
        raise DriverError(f"no {network}")

    with net_space():
        service = MetadataService(refuse)
        with pytest.raises(DriverError, match="no net"):
            service.serve("net", "nq1", [MetadataClient(ANA, PAGES)])
        assert devices() == []


def test_a_network_with_too_many_frames_does_not_block_others(
    service: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_loop, "MAX_FRAMES_PER_TICK", 20)
    for device in ("nq1", "nq2"):
        service.serve(device, device, [MetadataClient(ANA, PAGES)])
    loud, quiet = Wire("nq1"), Wire("nq2")
    for _ in range(200):
        loud.send(b"noise".ljust(14))
    quiet.asks()
    assert quiet.is_answered()
    loud.asks()
    assert loud.is_answered(), "it is read again with the next tick"
    loud.close()
    quiet.close()


def test_a_link_local_address_is_made_of_the_mac_address() -> None:
    assert str(link_local("fa:16:3e:00:00:03")) == "fe80::f816:3eff:fe00:3"
