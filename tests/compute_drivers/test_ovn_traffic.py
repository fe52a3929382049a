"""Traffic on OVN with the rows of the projection: namespaces are guests on two hosts, beside two gateway hosts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest
from django.conf import settings

from compute_drivers.metadata_service.service import link_local
from conductor.core.port_filters import EGRESS, INGRESS, IPV4, IPV6, FilterRule
from conductor.network.device_owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from conductor.network.ovn.database import NorthboundDatabase
from conductor.network.ovn.desired import desired
from conductor.network.ovn.routing import failover_options, router_port_name
from conductor.network.ovn.topology import (
    CloudTopology,
    FixedAddress,
    FloatingIpSpec,
    GatewayHost,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SubnetSpec,
)
from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

KINDS = (IPV4, IPV6)
ROUTER_OUTSIDE, FLOATING = "198.51.100.10", "198.51.100.21"
GATEWAY_HOSTS = ("h3", "h4")
RULES = tuple(FilterRule(way, kind, protocol) for way, protocol in ((EGRESS, ""), (INGRESS, "icmp")) for kind in KINDS)
LETS_WEB = FilterRule(INGRESS, protocol="tcp", low=8080, high=8080)


def port(name: str, number: int, subnet: str, address: str, host: str, group: str = "web") -> PortSpec:
    mac = f"fa:16:3e:00:04:{number:02x}"
    return PortSpec(name, f"net-{subnet}", mac, host=host, addresses=(FixedAddress(subnet, address),), groups=(group,))


def router_port(name: str, number: int, subnet: str, address: str, owner: str) -> PortSpec:
    return replace(port(name, number, subnet, address, ""), device_owner=owner, device_id="edge", groups=())


def with_ipv6(guest: PortSpec) -> PortSpec:
    """Return a port with the address that its guest makes from its MAC address."""
    own = str(link_local(guest.mac_address)).removeprefix("fe80::")
    return replace(guest, addresses=(*guest.addresses, FixedAddress("a6", f"fd00:a::{own}")))


# Ana and bo share a network; chi has another one behind the same router; dee's has the same addresses as ana's.
ANA = with_ipv6(port("ana", 1, "a", "10.0.0.11", "h1"))
BO = with_ipv6(port("bo", 2, "a", "10.0.0.12", "h2"))
CHI = port("chi", 3, "b", "10.0.1.11", "h2")
DEE = port("dee", 4, "d", "10.0.0.11", "h1", "others")
TOPOLOGY = CloudTopology(
    networks=(
        *(NetworkSpec(f"net-{name}", name) for name in "abd"),
        NetworkSpec("net-x", "public", mtu=1500, is_external=True, physical_network=ovn.PHYSICAL_NETWORK),
    ),
    subnets=(
        SubnetSpec("a", "net-a", "10.0.0.0/24", gateway_ip="10.0.0.1"),
        SubnetSpec("a6", "net-a", "fd00:a::/64", gateway_ip="fd00:a::1", ipv6_mode="slaac"),
        SubnetSpec("b", "net-b", "10.0.1.0/24", gateway_ip="10.0.1.1"),
        SubnetSpec("d", "net-d", "10.0.0.0/24", gateway_ip="10.0.0.1"),
        SubnetSpec("x", "net-x", "198.51.100.0/24", gateway_ip=ovn.OUTSIDE_ADDRESS, is_dhcp_enabled=False),
    ),
    ports=(
        ANA,
        BO,
        CHI,
        DEE,
        router_port("edge-a", 16, "a", "10.0.0.1", ROUTER_INTERFACE),
        replace(router_port("edge-a6", 19, "a6", "fd00:a::1", ROUTER_INTERFACE), network="net-a"),
        router_port("edge-b", 17, "b", "10.0.1.1", ROUTER_INTERFACE),
        router_port("edge-x", 18, "x", ROUTER_OUTSIDE, ROUTER_GATEWAY),
    ),
    security_groups=tuple(
        SecurityGroupSpec(group, rules={f"{group}-{number}": rule for number, rule in enumerate(RULES)})
        for group in ("web", "others", "empty")
    ),
    routers=(RouterSpec("edge", gateway_port="edge-x"),),
    gateway_hosts=tuple(GatewayHost(name, (ovn.PHYSICAL_NETWORK,)) for name in GATEWAY_HOSTS),
)


@dataclass
class Cloud:
    """Hosts, guests and an external network, with a connection to OVN's northbound database."""

    lab: ovn.Lab
    database: NorthboundDatabase
    guests: dict[str, NetworkNamespace]
    outside: NetworkNamespace

    def write(self, topology: CloudTopology) -> None:
        """Write the topology, and wait until all hosts have it."""
        self.database.write(desired(topology))
        self.lab.nb("--wait=hv", "sync")

    def gateway(self) -> str:
        """Return the name of the host that the router's gateway is on."""
        return self.lab.chassis_of(f"cr-{router_port_name('edge-x')}")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with ovn.lab(tmp_path_factory.mktemp("ovn")) as lab:
        hosts = {name: lab.add_host(name) for name in ("h1", "h2", *GATEWAY_HOSTS)}
        outside = lab.connect_outside(*(hosts[name] for name in GATEWAY_HOSTS))
        options = failover_options(settings.NOVELLA_OVN_FAILOVER_MILLISECONDS)
        database = NorthboundDatabase(lab.central.nb_remote, options=options)
        cloud = Cloud(lab, database, {}, outside)
        cloud.write(TOPOLOGY)
        for guest in (ANA, BO, CHI, DEE):
            held, *_ = guest.addresses
            gateway = f"{held.ip_address.rpartition('.')[0]}.1"
            cloud.guests[guest.uuid] = lab.add_guest(
                hosts[guest.host], guest.uuid, guest.mac_address, f"{held.ip_address}/24", gateway
            )
        yield cloud
        database.close()
        assert lab.flow_warnings() == []


@pytest.fixture
def cloud(started: Cloud) -> Cloud:
    """The cloud with its first topology."""
    started.write(TOPOLOGY)
    return started


def with_rules(*rules: FilterRule) -> CloudTopology:
    """Return the topology with further rules of ana's, bo's and chi's group."""
    web, *others = TOPOLOGY.security_groups
    more = {f"rule-{number}": rule for number, rule in enumerate(rules)}
    return replace(TOPOLOGY, security_groups=(replace(web, rules={**(web.rules or {}), **more}), *others))


def pings(guest: NetworkNamespace, address: str) -> bool:
    """Return whether an address answers; the first packet to a new host may be lost."""
    return guest.pings(address, count=2)


@dataclass
class Server:
    """Listens in a namespace, and answers each connection with the client's address."""

    listening: socket.socket

    def answer(self) -> str:
        connection, (address, _) = self.listening.accept()
        with connection:
            connection.sendall(str(address).encode())
        return str(address)


@pytest.fixture
def server_of() -> Iterator[Callable[[NetworkNamespace], Server]]:
    opened = []

    def make(namespace: NetworkNamespace) -> Server:
        with namespace.entered():
            opened.append(socket.create_server(("", 8080)))
        return Server(opened[-1])

    yield make
    for one in opened:
        one.close()


def connects(guest: NetworkNamespace, address: str, *, seconds: float = 60.0) -> bool:
    """Return whether a TCP connection is made."""
    with guest.entered():
        try:
            socket.create_connection((address, 8080), timeout=seconds).close()
        except TimeoutError:
            return False
    return True


def test_guests_reach_each_other_across_hosts_but_not_a_network_with_the_same_addresses(
    cloud: Cloud,
) -> None:
    guests = cloud.guests
    wait_until("bo answers ana", lambda: pings(guests["ana"], "10.0.0.12"))
    wait_until("ana answers bo", lambda: pings(guests["bo"], "10.0.0.11"))
    assert not pings(guests["dee"], "10.0.0.12"), "bo is in another network"


def test_a_router_connects_networks_and_its_gateway_translates_guests_addresses(
    cloud: Cloud, server_of: Callable[[NetworkNamespace], Server]
) -> None:
    ana, outside = cloud.guests["ana"], server_of(cloud.outside)
    wait_until("chi answers ana", lambda: pings(ana, "10.0.1.11"))
    wait_until("the outside answers ana", lambda: pings(ana, ovn.OUTSIDE_ADDRESS))
    assert connects(ana, ovn.OUTSIDE_ADDRESS)
    assert outside.answer() == ROUTER_OUTSIDE
    assert not pings(cloud.guests["dee"], ovn.OUTSIDE_ADDRESS), "no router has dee's network"


def test_a_connection_to_the_outside_survives_the_failure_of_its_gateway_host(
    cloud: Cloud, server_of: Callable[[NetworkNamespace], Server]
) -> None:
    server, first = server_of(cloud.outside), cloud.gateway()
    host = cloud.lab.hosts[first]
    found = cloud.lab.hosts["h1"].vsctl("--bare", "--columns=bfd", "find", "Interface", "type=geneve")
    assert found.count("min_rx=200 min_tx=200 mult=3") == len(GATEWAY_HOSTS), "three messages in 0.6 seconds"
    with cloud.guests["ana"].entered():
        client = socket.create_connection((ovn.OUTSIDE_ADDRESS, 8080), timeout=60.0)
    connection, _ = server.listening.accept()
    with client, connection:
        connection.settimeout(60.0)
        client.sendall(b"before")
        assert connection.recv(100) == b"before"
        host.vswitchd.kill()
        client.sendall(b"after")
        assert connection.recv(100) == b"after"
        wait_until("the other host is the gateway", lambda: {first, cloud.gateway()} == set(GATEWAY_HOSTS))
        host.vswitchd.start()
        # Alone it would wait up to eight seconds before it connects to the switch again, which other hosts see alive.
        host.controller.stop()
        host.controller.start()
        wait_until("the preferred host is the gateway again", lambda: cloud.gateway() == first)
        client.sendall(b"back")
        assert connection.recv(100) == b"back"


def test_a_floating_ip_reaches_its_guest_also_from_inside_and_can_be_moved_in_use(
    cloud: Cloud, server_of: Callable[[NetworkNamespace], Server]
) -> None:
    servers = {name: server_of(cloud.guests[name]) for name in ("ana", "bo")}
    for name, fixed in (("ana", "10.0.0.11"), ("bo", "10.0.0.12")):
        floating = FloatingIpSpec("floating", "edge", FLOATING, fixed)
        cloud.write(replace(with_rules(LETS_WEB), floating_ips=(floating,)))
        assert connects(cloud.outside, FLOATING)
        assert servers[name].answer() == ovn.OUTSIDE_ADDRESS
    assert connects(cloud.guests["ana"], FLOATING), "a guest of the same network"
    assert servers["bo"].answer() in (ROUTER_OUTSIDE, "10.0.0.11")


def test_a_security_group_filters_between_hosts(cloud: Cloud, server_of: Callable[[NetworkNamespace], Server]) -> None:
    ana, server = cloud.guests["ana"], server_of(cloud.guests["bo"])
    wait_until("bo answers ana", lambda: pings(ana, "10.0.0.12"))
    assert not connects(ana, "10.0.0.12", seconds=1.0)
    cloud.write(with_rules(LETS_WEB))
    assert connects(ana, "10.0.0.12")
    assert server.answer() == "10.0.0.11"
    cloud.write(with_rules(replace(LETS_WEB, remote_group="empty")))
    assert not connects(ana, "10.0.0.12", seconds=1.0), "ana is no member"
    cloud.write(with_rules(replace(LETS_WEB, remote_group="web")))
    assert connects(ana, "10.0.0.12")


def test_removing_a_rule_ends_its_connections(cloud: Cloud, server_of: Callable[[NetworkNamespace], Server]) -> None:
    server = server_of(cloud.guests["bo"])
    cloud.write(with_rules(LETS_WEB))
    with cloud.guests["ana"].entered():
        client = socket.create_connection(("10.0.0.12", 8080), timeout=60.0)
    connection, _ = server.listening.accept()
    with client, connection:
        client.sendall(b"before")
        assert connection.recv(100) == b"before"
        cloud.write(TOPOLOGY)
        client.sendall(b"after")
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        cloud.write(with_rules(LETS_WEB))
        connection.settimeout(60.0)
        assert connection.recv(100) == b"after"


def test_guests_derive_their_ipv6_addresses_from_router_advertisements(cloud: Cloud) -> None:
    ana, bo = cloud.guests["ana"], cloud.guests["bo"]
    for guest, spec in ((ana, ANA), (bo, BO)):
        wait_until("the guest has its address", partial(has_address, guest, spec.addresses[1].ip_address))
    wait_until("bo answers ana", lambda: pings(ana, BO.addresses[1].ip_address))


def has_address(guest: NetworkNamespace, address: str) -> bool:
    return f" {address}/64" in guest.ip("-6", "address")
