"""The metadata service in the kernel: guests on a bridge read their own pages, and nothing of each other's."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service.http import MAX_BODY_BYTES
from compute_drivers.metadata_service.service import MAX_CONNECTIONS, MetadataClient, MetadataService, link_local
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import DriverError
from tests.compute_drivers.net_space import devices, net_space
from tests.services.namespaces import NetworkNamespace
from tests.waiting import WAIT_SECONDS, wait_until

PAGE, LONG = "openstack/latest/meta_data.json", "openstack/latest/user_data"
ANA, BO = (
    NetworkPort(f"port-{name}", "private", f"fa:16:3e:00:00:0{number}", f"10.64.0.{number}", 20, "10.64.0.0/20",
                more=(PortAddress(f"fd00:64::{number}", "fd00:64::/64"),))
    for name, number in (("ana", 3), ("bo", 4))
)  # fmt: skip
USER_DATA = bytes(range(256)) * 1200
CLIENTS = {
    port: MetadataClient(port, MetadataPages({PAGE: port.port_uuid.encode(), LONG: USER_DATA}, Path("/nonexistent/p")))
    for port in (ANA, BO)
}
# The name of a network namespace too, which all tests of the machine share.
DEVICE = f"nq{uuid4().hex[:8]}"
SERVICE, SERVICE_IPV6 = ("169.254.169.254", 80), ("fe80::a9fe:a9fe%eth0", 80)


@dataclass(frozen=True)
class Guest:
    """A network namespace with the card of a port."""

    port: NetworkPort
    namespace: NetworkNamespace

    def connect(self, source: str = "", *, seconds: float = WAIT_SECONDS) -> socket.socket:
        with self.namespace.entered():
            return socket.create_connection(SERVICE, seconds, source_address=(source, 0) if source else None)

    def get(self, path: str = PAGE) -> bytes:
        """Return the body of a page; b"" where the service closes the connection."""
        with self.connect() as client:
            return asked(client, path)

    def get_by_ipv6(self) -> bytes:
        with self.namespace.entered():
            client = socket.create_connection(SERVICE_IPV6, WAIT_SECONDS)
        with client:
            return asked(client, PAGE)


def asked(client: socket.socket, path: str) -> bytes:
    try:
        client.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
        return received(client).partition(b"\r\n\r\n")[2]
    except ConnectionError:
        return b""


def received(client: socket.socket) -> bytes:
    found = b""
    while data := client.recv(65536):
        found += data
    return found


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def service() -> Iterator[MetadataService]:
    """A service whose networks are a bridge in a network namespace of the test's own."""
    with net_space():
        ip("link", "add", "bridge", "type", "bridge")
        ip("link", "set", "bridge", "up")
        made = MetadataService(lambda _, device: ip("link", "set", device, "master", "bridge"), lambda _: None)
        yield made
        made.stop()
        assert DEVICE not in devices()
        assert DEVICE not in subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def guests(service: MetadataService) -> Iterator[dict[NetworkPort, Guest]]:
    made = {port: Guest(port, NetworkNamespace.create()) for port in CLIENTS}
    for number, (port, guest) in enumerate(made.items()):
        space = guest.namespace
        ip("link", "add", f"guest{number}", "type", "veth", "peer", "name", "eth0", "netns", space.name)
        ip("link", "set", f"guest{number}", "master", "bridge", "up")
        space.ip("link", "set", "eth0", "address", port.mac_address, "addrgenmode", "none", "up")
        space.ip("address", "add", f"{port.ip_address}/20", "dev", "eth0")
        space.ip("address", "add", f"{link_local(port.mac_address)}/64", "dev", "eth0", "nodad")
        space.ip("route", "add", "169.254.169.254/32", "dev", "eth0")
    yield made
    for guest in made.values():
        guest.namespace.delete()


def test_guests_read_their_own_pages_also_after_a_restart_and_until_their_port_is_gone(
    service: MetadataService, guests: dict[NetworkPort, Guest]
) -> None:
    for _ in range(2):
        service.serve("net", DEVICE, [CLIENTS[ANA]])
        service.serve("net", DEVICE, [*CLIENTS.values()])  # another port was plugged
        for port, guest in guests.items():
            assert guest.get() == port.port_uuid.encode()
            assert guest.get_by_ipv6() == port.port_uuid.encode()
        assert guests[ANA].get(LONG) == USER_DATA
        service.stop()
    service.serve("net", DEVICE, [*CLIENTS.values()])
    service.serve("net", DEVICE, [CLIENTS[BO]])
    assert guests[ANA].get() == b"", "its port is gone"
    assert guests[BO].get() == b"port-bo"
    service.end(DEVICE)
    assert DEVICE not in devices()


def test_a_guest_with_the_address_of_another_reads_nothing(
    service: MetadataService, guests: dict[NetworkPort, Guest]
) -> None:
    service.serve("net", DEVICE, [*CLIENTS.values()])
    bo = guests[BO]
    bo.namespace.ip("address", "add", f"{ANA.ip_address}/32", "dev", "eth0")
    with pytest.raises(TimeoutError):
        bo.connect(ANA.ip_address, seconds=1.0)
    assert guests[ANA].get() == b"port-ana"


def test_a_guest_with_many_or_malformed_requests_disturbs_no_other(
    service: MetadataService, guests: dict[NetworkPort, Guest]
) -> None:
    service.serve("net", DEVICE, [*CLIENTS.values()])
    ana, bo = guests[ANA], guests[BO]
    waiting = [ana.connect() for _ in range(MAX_CONNECTIONS)]
    wait_until("further connections are closed", lambda: ana.get() == b"")
    assert bo.get() == b"port-bo"
    for client in waiting:
        client.close()
    wait_until("connections are free again", lambda: ana.get() == b"port-ana")
    with ana.connect() as client:
        client.sendall(b"\0\xff" * 10_000)
        assert received(client).startswith(b"HTTP/1.1 4")
    with ana.connect() as client:
        length = 100 * MAX_BODY_BYTES
        client.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + b"x" * length)
        assert received(client).startswith(b"HTTP/1.1 413 ")
    assert bo.get() == b"port-bo"


def test_a_network_that_cannot_be_attached_has_no_service() -> None:
    def refuse(network: str, device: str) -> None:
        raise DriverError(f"no {network}")

    with net_space():
        service = MetadataService(refuse, lambda _: None)
        with pytest.raises(DriverError, match="no net"):
            service.serve("net", DEVICE, [CLIENTS[ANA]])
        assert devices() == []


def test_a_link_local_address_is_made_of_the_mac_address() -> None:
    assert str(link_local("fa:16:3e:00:00:03")) == "fe80::f816:3eff:fe00:3"
