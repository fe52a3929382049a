"""Names that guests resolve on their own network, as OVN answers them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from uuid import uuid4

from conductor.network import operations, port_operations, ports, subnets
from conductor.network.models import Port
from conductor.network.subnets import SubnetCreate
from conductor.services.networks.ovn_projection import OvnProjection
from tests.fixtures.ports import make_network
from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

A, PTR, AAAA = 1, 12, 28
HEADER = struct.Struct("!6H")


def ask(guest: NetworkNamespace, server: str, name: str, kind: int = A) -> list[str]:
    """Return the answers to a guest's DNS query; [] if no server answers. No program listens at `server`."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = labels + b"\0" + struct.pack("!2H", kind, 1)
    with guest.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with client:
        client.settimeout(5.0)
        client.connect((server, 53))
        client.send(HEADER.pack(7, 0x0100, 1, 0, 0, 0) + question)
        try:
            reply = client.recv(512)
        except ConnectionRefusedError:  # the query reached the server
            return []
    count = HEADER.unpack_from(reply)[3]
    return sorted(_answers(reply[HEADER.size + len(question) :], count))


def _answers(rest: bytes, count: int) -> Sequence[str]:
    found = []
    for _ in range(count):
        name_length = 2 if rest[0] >= 0xC0 else rest.index(0) + 1
        kind, _, _, length = struct.unpack_from("!2HIH", rest, name_length)
        data = rest[name_length + 10 : name_length + 10 + length]
        found.append(_name(data) if kind == PTR else str((IPv4Address if kind == A else IPv6Address)(data)))
        rest = rest[name_length + 10 + length :]
    return found


def _name(data: bytes) -> str:
    labels = []
    while data[0]:
        labels.append(data[1 : 1 + data[0]].decode())
        data = data[1 + data[0] :]
    return ".".join(labels)


def add_server(person: Any, network: str, hostname: str) -> Port:
    """Plug a server of this hostname in, on h1."""
    server = str(uuid4())
    ports.plug(
        instance_uuid=server,
        project_id=person.project.id,
        networks=[{"network_id": network, "port_id": "", "fixed_ip": ""}],
        binding=ports.Binding("h1", "compute:az-1", hostname=hostname),
    )
    return Port.objects.get(device_id=server)


def plug(lab: ovn.Lab, port: Port) -> NetworkNamespace:
    return lab.add_guest(lab.hosts["h1"], str(port.uuid), port.mac_address, f"{address(port)}/24")


def address(port: Port, version: int = 4) -> str:
    return str(port.addresses.get(subnet__ip_version=version).ip_address)


def test_a_guest_resolves_names_of_its_own_network(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    lab.add_host("h1")
    ana, chi = people.ana.context(), people.chi.context()
    network = make_network(people.ana, dns_domain="lab.example.org.")
    subnets.create_subnet(ana, SubnetCreate(network_id=network, cidr="fd00:a::/64", ip_version=6))
    foreign = str(operations.create_network(chi, {"name": "inner"}).uuid)
    subnets.create_subnet(chi, SubnetCreate(network_id=foreign, cidr="10.0.0.0/24"))
    web, db = add_server(people.ana, network, "Web-1"), add_server(people.ana, network, "db")
    secret = add_server(people.chi, foreign, "secret")
    projection.carry_out()
    guest, there = plug(lab, web), address(db)
    plug(lab, db)

    wait_until("a name is resolved", lambda: ask(guest, there, "db") == [there])

    assert ask(guest, there, "web-1") == [address(web)]
    assert ask(guest, there, "DB.lab.example.org") == [there]
    assert ask(guest, there, "db", AAAA) == [address(db, 6)]
    for held in (there, address(db, 6)):
        assert ask(guest, there, ip_address(held).reverse_pointer, PTR) == ["db.lab.example.org"]
    for other in ("secret", "secret.openstacklocal", "db.openstacklocal", ip_address("10.0.0.99").reverse_pointer):
        assert ask(guest, there, other) == []
    assert secret.guest_hostname == "secret"

    port_operations.update_port(ana, str(db.uuid), {"dns_name": "database"})
    projection.carry_out()
    wait_until("a port's own name is resolved", lambda: ask(guest, there, "database") == [there])
    wait_until("and its server's no more", lambda: ask(guest, there, "db") == [])
    port_operations.update_port(ana, str(db.uuid), {"dns_name": ""})
    ports.rename_guest(db.device_id, "store")
    projection.carry_out()
    wait_until("a server's new name is resolved", lambda: ask(guest, there, "store") == [there])
    assert lab.flow_warnings() == []
