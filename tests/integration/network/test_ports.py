"""Ports of guests: what a launch may request, plugging twice, and nothing left behind."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted, Conflict, Invalid
from conductor.db.transactions import write_tx
from conductor.network import guest_addresses, operations, port_operations, ports, security_groups, seed, subnets
from conductor.network.ipv6_modes import address_of
from conductor.network.models import AddressAllocation, Network, Port, Subnet, SubnetPool
from conductor.network.ovn import topology_rows
from conductor.network.port_operations import PortCreate
from conductor.network.subnets import SubnetCreate
from conductor.services.servers.types import NetworkRequest
from tests.fixtures.ports import make_network, make_port, plug, resolve, unplug


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Port, AddressAllocation)]


def test_seed_makes_a_shared_and_an_external_network_once(people: Any) -> None:
    for _ in range(2):
        seed.seed(people.admin.project.id)
    network, pool = Network.objects.get(is_shared=True), SubnetPool.objects.get()
    subnet = network.subnets.get()
    outside = Network.objects.get(is_shared=False)
    assert (outside.name, outside.is_external, outside.is_default) == ("public", True, True)
    assert [(one.cidr, one.is_dhcp_enabled) for one in outside.subnets.all()] == [("198.18.0.0/20", False)]
    assert (network.name, network.is_shared, network.is_external) == ("private", True, False)
    assert (subnet.name, subnet.cidr, subnet.gateway_ip, subnet.is_dhcp_enabled) == (
        "private-subnet",
        "10.64.0.0/20",
        "10.64.0.1",
        True,
    )
    assert (subnet.pool, pool.name, pool.prefixes) == (pool, "default-pool", ["10.64.0.0/16"])


def test_auto_takes_the_only_network(people: Any) -> None:
    ana, chi = people.ana, people.chi
    assert ports.resolve_requests(ana.context(), None) == []
    seed.seed(people.admin.project.id)
    shared = str(Network.objects.get(name="private").uuid)
    assert ports.resolve_requests(ana.context(), None) == [{"network_id": shared, "port_id": "", "fixed_ip": ""}]
    operations.create_network(ana.context(), {"name": "without a subnet"})
    make_network(people.admin, "10.7.0.0/24", is_shared=True, is_external=True)
    assert len(ports.resolve_requests(ana.context(), None)) == 1
    make_network(ana)
    with pytest.raises(Conflict, match=r"^Multiple possible networks found, use a Network ID to be more specific\.$"):
        ports.resolve_requests(ana.context(), None)
    assert len(ports.resolve_requests(chi.context(), None)) == 1
    assert ports.resolve_requests(ana.context(), []) == []


def test_auto_makes_a_network_where_there_is_none(people: Any) -> None:
    seed.seed(people.admin.project.id)
    Network.objects.filter(name="private").update(is_shared=False)
    first, again = (ports.resolve_requests(people.ana.context(), None) for _ in range(2))
    made = Network.objects.get(project_id=people.ana.project.id)
    assert first == again == [{"network_id": str(made.uuid), "port_id": "", "fixed_ip": ""}]
    assert ports.resolve_requests(people.bo.context(), None) == first
    assert ports.resolve_requests(people.chi.context(), None) != first
    Network.objects.filter(is_default=True).update(is_default=False)
    Network.objects.filter(name="auto_allocated_network").update(is_admin_up=False)
    assert ports.resolve_requests(people.ana.context(), None) == []


def test_requests_are_refused_by_name(people: Any) -> None:
    ana, chi = people.ana, people.chi
    network_id, foreign = make_network(ana), make_network(chi, "10.2.0.0/24")
    port_id, foreign_port = make_port(ana, network_id), make_port(chi, foreign)
    bare = str(operations.create_network(ana.context(), {"name": "bare"}).uuid)
    unknown = str(uuid4())
    before = everything()
    cases = [
        (NetworkRequest(network_id=unknown), unknown),
        (NetworkRequest(network_id="no-uuid"), "no-uuid"),
        (NetworkRequest(network_id=foreign), foreign),
        (NetworkRequest(network_id=bare), bare),
        (NetworkRequest(port_id=unknown), unknown),
        (NetworkRequest(port_id=foreign_port), foreign_port),
        (NetworkRequest(network_id=network_id, fixed_ip="10.9.0.5"), "10.9.0.5"),
        (NetworkRequest(network_id=network_id, fixed_ip="10.0.0.1"), "10.0.0.1"),
        (NetworkRequest(network_id=network_id, fixed_ip="10.0.0.2"), "10.0.0.2"),
        (NetworkRequest(network_id=network_id, fixed_ip="nine"), "nine"),
    ]
    for requested, named in cases:
        with pytest.raises(Invalid, match=named):
            resolve(ana, requested)
    with pytest.raises(Invalid, match="only once"):
        resolve(ana, NetworkRequest(port_id=port_id), NetworkRequest(port_id=port_id))
    assert everything() == before
    assert resolve(
        ana, NetworkRequest(port_id=port_id), NetworkRequest(network_id=network_id, fixed_ip="10.0.0.9")
    ) == [
        {"network_id": network_id, "port_id": port_id, "fixed_ip": "10.0.0.2"},
        {"network_id": network_id, "port_id": "", "fixed_ip": "10.0.0.9"},
    ]


def test_a_port_in_use_is_a_conflict(people: Any) -> None:
    network_id = make_network(people.ana)
    port_id = make_port(people.ana, network_id)
    plug(people.ana, resolve(people.ana, NetworkRequest(port_id=port_id)), str(uuid4()))
    with pytest.raises(Conflict, match=port_id):
        resolve(people.ana, NetworkRequest(port_id=port_id))


def test_plug_returns_all_that_a_guest_needs(people: Any) -> None:
    network_id = make_network(people.ana)
    instance = str(uuid4())
    (plugged,) = plug(people.ana, resolve(people.ana, NetworkRequest(network_id=network_id)), instance)
    row = Port.objects.get()
    assert plugged == {
        "port_uuid": str(row.uuid),
        "network_name": "inner",
        "mac_address": row.mac_address,
        "ip_address": "10.0.0.2",
        "prefix_length": 24,
        "cidr": "10.0.0.0/24",
        "gateway_ip": "10.0.0.1",
        "dns_nameservers": ["9.9.9.9"],
        "network_uuid": network_id,
        "ipv6_mode": "",
        "more": [],
    }
    assert NetworkPort.from_json(plugged).ip_address == "10.0.0.2"
    assert row.mac_address.startswith("fa:16:3e:")
    assert (row.device_id, row.binding_host, row.status) == (instance, "host-1", "ACTIVE")
    assert [group.name for group in row.security_groups.all()] == ["default"]


def test_plug_returns_every_address_and_how_a_guest_gets_those_of_ipv6(people: Any) -> None:
    ana, network_id = people.ana, make_network(people.ana)
    requested = SubnetCreate(network_id=network_id, cidr="fd00:64::/64", ip_version=6, ipv6_address_mode="slaac")
    subnets.create_subnet(ana.context(), requested)
    instance = str(uuid4())
    plug(ana, resolve(ana, NetworkRequest(network_id=network_id)), instance)
    further = guest_addresses.add(instance, network_id)
    (reported,) = plug(ana, [], instance)
    port = NetworkPort.from_json(reported)
    row = Port.objects.get()
    made = address_of(Subnet.objects.get(ip_version=6), row.mac_address)
    assert (port.ip_address, port.ipv6_mode) == ("10.0.0.2", "")
    second = PortAddress(further, "10.0.0.0/24", "10.0.0.1", ("9.9.9.9",))
    assert set(port.more) == {second, PortAddress(made, "fd00:64::/64", "fd00:64::1", (), "slaac")}
    (spec,) = topology_rows.read().ports
    own = {address.ip_address for address in spec.addresses}
    assert own == {"10.0.0.2", further, made}, "what it got while it runs, it may use"


def test_plugging_twice_plugs_once(people: Any) -> None:
    ana = people.ana
    first, second = make_network(ana), make_network(ana, "10.1.0.0/24")
    port_id = make_port(ana, second)
    requests = resolve(
        ana, NetworkRequest(network_id=second), NetworkRequest(port_id=port_id), NetworkRequest(network_id=first)
    )
    instance = str(uuid4())
    plugged = plug(ana, requests, instance)
    assert [port["ip_address"] for port in plugged] == ["10.1.0.3", "10.1.0.2", "10.0.0.2"]
    before = everything()
    assert plug(ana, requests, instance) == plugged
    assert everything() == before
    assert plug(ana, requests, instance, host="host-2") == plugged
    assert set(Port.objects.values_list("binding_host", flat=True)) == {"host-2"}


def test_unplugging_leaves_what_was_there_before(people: Any) -> None:
    ana = people.ana
    network_id = make_network(ana)
    port_id = make_port(ana, network_id)
    instance, other = str(uuid4()), str(uuid4())
    plug(ana, resolve(ana, NetworkRequest(network_id=network_id), NetworkRequest(port_id=port_id)), instance)
    plug(ana, resolve(ana, NetworkRequest(network_id=network_id)), other)
    for _ in range(2):
        unplug(instance)
        remaining = {str(port.uuid): port for port in Port.objects.all()}
        assert len(remaining) == 2
        given_back = remaining[port_id]
        assert (given_back.device_id, given_back.device_owner, given_back.binding_host) == ("", "", "")
        assert (given_back.status, given_back.addresses.get().ip_address) == ("DOWN", "10.0.0.2")
    unplug(other)
    assert [str(port.uuid) for port in Port.objects.all()] == [port_id]
    assert AddressAllocation.objects.count() == 1


def test_plugging_is_all_or_nothing(people: Any) -> None:
    ana = people.ana
    roomy, narrow = make_network(ana), make_network(ana, "10.1.0.0/30")
    make_port(ana, narrow)
    before = everything()
    with pytest.raises(BuildAborted, match="No more IP addresses"):
        plug(ana, resolve(ana, NetworkRequest(network_id=roomy), NetworkRequest(network_id=narrow)), str(uuid4()))
    assert everything() == before


def test_a_network_deleted_meanwhile_aborts_the_build(people: Any) -> None:
    ana = people.ana
    network_id = make_network(ana)
    port_id = make_port(ana, network_id)
    by_port, by_network = resolve(ana, NetworkRequest(port_id=port_id), NetworkRequest(network_id=network_id))
    fixed = resolve(ana, NetworkRequest(network_id=network_id, fixed_ip="10.0.0.3"))
    make_port(ana, network_id)  # takes 10.0.0.3
    with pytest.raises(BuildAborted, match="already allocated"):
        plug(ana, fixed, str(uuid4()))
    port_operations.delete_port(ana.context(), port_id)
    with pytest.raises(BuildAborted, match=port_id):
        plug(ana, [by_port], str(uuid4()))
    Port.objects.all().delete()
    operations.delete_network(ana.context(), network_id)
    with pytest.raises(BuildAborted, match=network_id):
        plug(ana, [by_network], str(uuid4()))
    assert everything() == [[], []]


def test_a_port_goes_to_one_of_two_builds(people: Any) -> None:
    ana = people.ana
    requests = resolve(ana, NetworkRequest(port_id=make_port(ana, make_network(ana))))
    winner = str(uuid4())
    plug(ana, requests, winner)
    with pytest.raises(BuildAborted, match="in use"):
        plug(ana, requests, str(uuid4()))
    assert Port.objects.get().device_id == winner


def test_a_device_id_that_another_project_sets_on_its_port_does_not_plug_it(people: Any) -> None:
    """chi names ana's instance on a port of her own: it must neither be shown to ana's guest nor be lost."""
    ana, chi = people.ana, people.chi
    instance = str(uuid4())
    bait = PortCreate(network_id=make_network(chi, "10.2.0.0/24"), values={"device_id": instance})
    port_operations.create_port(chi.context(), bait)
    (plugged,) = plug(ana, resolve(ana, NetworkRequest(network_id=make_network(ana))), instance)
    assert plugged["ip_address"] == "10.0.0.2"
    unplug(instance)
    left = Port.objects.get()
    assert (left.project_id, left.device_id) == (chi.project.id, instance)


def test_groups_by_id_or_name(people: Any) -> None:
    ana = people.ana
    web = security_groups.create_group(ana.context(), {"name": "web"})
    with write_tx():
        ports.plug(
            instance_uuid=str(uuid4()),
            project_id=ana.project.id,
            networks=resolve(ana, NetworkRequest(network_id=make_network(ana))),
            binding=ports.Binding("host-1", "compute:az-1", [str(web.uuid), "default", "web"]),
        )
    assert sorted(group.name for group in Port.objects.get().security_groups.all()) == ["default", "web"]
