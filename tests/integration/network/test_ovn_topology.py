"""The topology of the cloud, read from the resources that callers created by the network API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import Conflict
from conductor.core.port_filters import EGRESS, INGRESS, IPV6, AddressPair, FilterRule
from conductor.network import (
    floating_ips,
    operations,
    port_operations,
    ports,
    qos,
    router_interfaces,
    routers,
    security_groups,
    subnets,
)
from conductor.network.device_owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from conductor.network.floating_ips import FloatingIpCreate
from conductor.network.models import Port, SecurityGroup, Subnet
from conductor.network.ovn import topology_rows
from conductor.network.ovn.topology import CloudTopology, DhcpOption, FixedAddress, GatewayHost
from conductor.network.ovn.topology_rows import TopologyReader
from conductor.network.port_operations import PortCreate
from conductor.network.port_rows import AddressRequest
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.network.subnets import SubnetCreate
from tests.counting import counted
from tests.fixtures.ports import plug, unplug

HOSTS = (GatewayHost("h1", ("physnet1",)),)


@pytest.fixture
def way_out(people: Any) -> str:
    """The id of a router from ana's network `inner` to an external one."""
    ana, admin = people.ana.context(), people.admin.context()
    physical = {"provider_type": "vlan", "physical_network": "physnet1", "segmentation_id": 7}
    outside = str(operations.create_network(admin, {"name": "outside", "is_external": True, **physical}).uuid)
    subnets.create_subnet(admin, SubnetCreate(network_id=outside, cidr="198.51.100.0/24", is_dhcp_enabled=False))
    network = str(operations.create_network(ana, {"name": "inner", "mtu": 1400, "dns_domain": "lab.example.org."}).uuid)
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    inner = subnets.create_subnet(
        ana, SubnetCreate(network_id=network, cidr="10.0.0.0/24", dns_nameservers=["9.9.9.9"], host_routes=routes)
    )
    router = RouterCreate({"name": "way-out"}, has_gateway=True, gateway=GatewayRequest(outside))
    router_id = str(routers.create_router(ana, router).uuid)
    router_interfaces.add(ana, router_id, subnet_id=str(inner.uuid))
    extra = [{"destination": "172.16.0.0/12", "nexthop": "10.0.0.9"}]
    routers.change_routes(ana, router_id, extra, is_added=True)
    return router_id


def test_every_resource_of_the_network_api_is_in_the_topology(people: Any, way_out: str) -> None:
    ana = people.ana.context()
    network_id = _network_of(way_out)
    values = {
        "name": "web",
        "dns_name": "web-1",
        "address_pairs": [{"ip_address": "10.0.0.100", "mac_address": "fa:16:3e:00:00:99"}],
        "dhcp_options": [{"opt_name": "mtu", "opt_value": "1300", "ip_version": 4}],
    }
    created = port_operations.create_port(
        ana, PortCreate(network_id=network_id, fixed_ips=[AddressRequest(ip_address="10.0.0.11")], values=values)
    )
    instance = str(uuid4())
    plug(people.ana, [{"network_id": network_id, "port_id": str(created.uuid)}], instance, host="h1")
    ports.set_destination(instance, "h2")
    outside = str(Port.objects.get(device_owner=ROUTER_GATEWAY).network.uuid)
    floating = floating_ips.create_floating_ip(ana, FloatingIpCreate(network_id=outside, port_id=str(created.uuid)))
    floating_ips.create_floating_ip(ana, FloatingIpCreate(network_id=outside))  # associated with no port
    default = SecurityGroup.objects.get(project_id=people.ana.project.id)
    http = SecurityGroupRuleCreate(
        "ingress", protocol="tcp", port_range_min=80, port_range_max=80, group_id=str(default.uuid)
    )
    security_groups.create_rule(ana, http)

    found = topology_rows.read(HOSTS)

    networks = {network.name: network for network in found.networks}
    assert (networks["outside"].physical_network, networks["outside"].segmentation_id) == ("physnet1", 7)
    own = networks["inner"]
    assert (own.mtu, own.physical_network, own.is_external) == (1400, "", False)
    inner = next(subnet for subnet in found.subnets if subnet.network == network_id)
    assert (inner.cidr, inner.gateway_ip, inner.dns_nameservers) == ("10.0.0.0/24", "10.0.0.1", ("9.9.9.9",))
    assert inner.host_routes == (("192.0.2.0/24", "10.0.0.9"),)
    port = next(port for port in found.ports if port.uuid == str(created.uuid))
    assert (port.name, port.host, port.destination) == ("web", "h1", "h2")
    assert port.groups == (str(default.uuid),)
    assert (port.project, port.dns_name, own.dns_domain) == (people.ana.project.id, "web-1", "lab.example.org.")
    assert port.addresses == (FixedAddress(inner.uuid, "10.0.0.11"),)
    assert port.pairs == (AddressPair("10.0.0.100", "fa:16:3e:00:00:99"),)
    assert port.dhcp_options == (DhcpOption("mtu", "1300"),)
    (router,) = found.routers
    gateway = next(port for port in found.ports if port.uuid == router.gateway_port)
    assert (router.uuid, router.is_snat_enabled, gateway.device_id) == (way_out, True, way_out)
    assert router.routes == (("172.16.0.0/12", "10.0.0.9"),)
    (translation,) = found.floating_ips
    assert (translation.uuid, translation.router) == (str(floating.uuid), way_out)
    assert (translation.address, translation.fixed_ip_address) == (floating.address, "10.0.0.11")
    group = next(group for group in found.security_groups if group.uuid == str(default.uuid))
    assert group.rules is not None
    assert set(group.rules.values()) == {
        FilterRule(EGRESS),
        FilterRule(EGRESS, IPV6),
        FilterRule(INGRESS, remote_group=group.uuid),
        FilterRule(INGRESS, IPV6, remote_group=group.uuid),
        FilterRule(INGRESS, protocol="tcp", low=80, high=80),
    }
    assert found.gateway_hosts == HOSTS


def test_the_number_of_queries_does_not_depend_on_the_number_of_ports(people: Any, way_out: str) -> None:
    def queries() -> int:
        with counted(API_ALIAS) as found:
            topology_rows.read(HOSTS)
        return len(found.statements)

    few = queries()
    for _ in range(3):
        port_operations.create_port(people.ana.context(), PortCreate(network_id=_network_of(way_out)))

    assert queries() == few


def test_an_empty_cloud_has_an_empty_topology(db: None) -> None:
    assert topology_rows.read() == CloudTopology()


CHANGES = [
    "network", "subnet", "port", "more addresses", "no addresses", "groups", "no groups", "limit", "plug", "unplug",
    "another port", "delete a port", "rule", "floating ip",
]  # fmt: skip


HEALTH_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # the machine's load decides about it


@given(changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None, suppress_health_check=HEALTH_CHECKS)
def test_what_is_read_of_changes_is_what_is_read_anew(people: Any, way_out: str, changes: list[str]) -> None:
    reader = TopologyReader()
    cloud = _Cloud(people, way_out)

    for change in changes:
        cloud.change(change)
        assert reader.read(HOSTS, topology_rows.fingerprint()) == topology_rows.read(HOSTS), change


class _Cloud:
    """Changes of the network of ana's router, each through the API."""

    def __init__(self, people: Any, way_out: str) -> None:
        self._people = people
        self._ana = people.ana.context()
        self._network = _network_of(way_out)
        self._subnet = str(Subnet.objects.get(network__uuid=self._network).uuid)
        self._outside = str(Port.objects.get(device_owner=ROUTER_GATEWAY).network.uuid)
        self._ports = [self._new_port() for _ in range(2)]
        self._instance = ""
        self._count = 0

    def change(self, what: str) -> None:
        self._count += 1
        port = self._ports[-1]
        update = lambda values: port_operations.update_port(self._ana, port, values)  # noqa: E731
        actions: dict[str, Callable[[], object]] = {
            "network": lambda: operations.update_network(self._ana, self._network, {"mtu": 1300 + self._count}),
            "subnet": self._change_subnet,
            "port": lambda: update({"name": f"name-{self._count}"}),
            "more addresses": lambda: update({"fixed_ips": [AddressRequest(self._subnet)] * 2}),
            "no addresses": lambda: update({"fixed_ips": []}),
            "groups": lambda: update({"security_groups": ["default"]}),
            "no groups": lambda: update({"security_groups": []}),
            "limit": self._limit,
            "plug": self._plug,
            "unplug": self._unplug,
            "another port": lambda: self._ports.append(self._new_port()),
            "delete a port": lambda: (
                len(self._ports) > 1 and port_operations.delete_port(self._ana, self._ports.pop(0))
            ),
            "rule": self._add_rule,
            "floating ip": lambda: floating_ips.create_floating_ip(
                self._ana, FloatingIpCreate(network_id=self._outside)
            ),
        }
        with suppress(Conflict):  # of a rule that is there, and a port in use
            actions[what]()

    def _new_port(self) -> str:
        return str(port_operations.create_port(self._ana, PortCreate(network_id=self._network)).uuid)

    def _change_subnet(self) -> None:
        subnets.update_subnet(self._ana, self._subnet, {"dns_nameservers": [f"10.0.0.{self._count}"]})

    def _limit(self) -> None:
        policy = str(qos.create_policy(self._ana, {"name": f"slow-{self._count}"}).uuid)
        qos.create_limit(self._ana, policy, {"max_kbps": 1000 + self._count})
        operations.update_network(self._ana, self._network, {"qos_policy": policy})

    def _plug(self) -> None:
        if not self._instance:
            self._instance = str(uuid4())
            plug(self._people.ana, [{"network_id": self._network, "port_id": self._ports[-1]}], self._instance, "h1")

    def _unplug(self) -> None:
        if self._instance:
            unplug(self._instance)
            self._instance = ""

    def _add_rule(self) -> None:
        group = str(SecurityGroup.objects.get(project_id=self._people.ana.project.id).uuid)
        rule = SecurityGroupRuleCreate(
            "ingress", protocol="tcp", port_range_min=self._count, port_range_max=self._count, group_id=group
        )
        security_groups.create_rule(self._ana, rule)


def _network_of(router_id: str) -> str:
    return str(Port.objects.get(device_id=router_id, device_owner=ROUTER_INTERFACE).network.uuid)
