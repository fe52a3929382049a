"""Connections through a load balancer of the network API, in OVN."""

from __future__ import annotations

from typing import Any

from conductor.network import (
    balancer_members,
    balancer_pools,
    balancer_states,
    floating_ips,
    load_balancers,
    operations,
    router_interfaces,
    routers,
    security_groups,
    subnets,
)
from conductor.network.balancer_members import HealthMonitorCreate, MemberCreate
from conductor.network.balancer_pools import ListenerCreate, PoolCreate
from conductor.network.floating_ips import FloatingIpCreate
from conductor.network.load_balancers import LoadBalancerCreate
from conductor.network.models import LoadBalancer
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.network.subnets import SubnetCreate
from conductor.services.networks import ovn_projection
from conductor.services.networks.ovn_projection import OvnProjection
from tests.fixtures.ovn_ports import GATEWAY_MAPPING, add_port, address_of, group_of, subnet_of
from tests.fixtures.ports import make_network
from tests.fixtures.tcp import reads, serving
from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

VIP, PORT = "10.0.0.100", 8080
WORDS = {b"one", b"two"}


def make_balancer(context: Any, network: str, *members: str) -> tuple[str, str]:
    """Create a load balancer with a listener, a pool and its members; return its id and the pool's."""
    subnet = subnet_of(network)
    made = load_balancers.create_balancer(context, LoadBalancerCreate(vip_subnet_id=subnet, vip_address=VIP))
    balancer = str(made.uuid)
    listening = {"protocol": "TCP", "protocol_port": 80}
    listener = balancer_pools.create_listener(context, ListenerCreate(balancer, values=listening))
    wanted = PoolCreate(listener_id=str(listener.uuid), values={"protocol": "TCP"})
    pool = str(balancer_pools.create_pool(context, wanted).uuid)
    for address in members:
        member = MemberCreate(pool, address, values={"protocol_port": PORT})
        balancer_members.create_member(context, member)
    return balancer, pool


def monitor(context: Any, pool: str) -> str:
    values = {"type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1, "max_retries_down": 1}
    return str(balancer_members.create_monitor(context, HealthMonitorCreate(pool, values)).uuid)


def status(context: Any, balancer: str) -> tuple[str, str]:
    found = load_balancers.get_balancer(context, balancer)
    return balancer_states.provisioning_status(found), balancer_states.of_balancer(found)


def rows(lab: ovn.Lab) -> str:
    return lab.nb("--columns=name,vips,ip_port_mappings", "list", "Load_Balancer")


def test_a_load_balancer_is_active_when_it_is_written(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    ana = people.ana.context()
    balancer, _ = make_balancer(ana, make_network(people.ana), "10.0.0.11")
    assert status(ana, balancer)[0] == "PENDING_CREATE"

    projection.carry_out()

    assert status(ana, balancer)[0] == "ACTIVE"
    assert f"{VIP}:80" in rows(lab)
    load_balancers.update_balancer(ana, balancer, {"is_admin_up": False})
    assert status(ana, balancer)[0] == "PENDING_UPDATE"
    projection.carry_out()
    assert status(ana, balancer) == ("ACTIVE", "OFFLINE")
    assert rows(lab) == ""
    load_balancers.delete_balancer(ana, balancer, is_cascade=True)
    projection.carry_out()
    assert balancer not in lab.nb("list", "Logical_Router")


def test_every_change_of_a_part_is_noticed(people: Any, configured: None) -> None:
    ana = people.ana.context()
    _, pool = make_balancer(ana, make_network(people.ana), "10.0.0.11")
    member = str(balancer_members.create_member(ana, MemberCreate(pool, "10.0.0.12", values={"protocol_port": 1})).uuid)
    checks = monitor(ana, pool)
    changes = (
        lambda: balancer_members.update_member(ana, member, {"is_admin_up": False}),
        lambda: balancer_members.delete_member(ana, member),
        lambda: balancer_members.update_monitor(ana, checks, {"delay": 9}),
        lambda: balancer_members.delete_monitor(ana, checks),
        lambda: balancer_pools.update_pool(ana, pool, {"is_admin_up": False}),
        lambda: balancer_pools.delete_pool(ana, pool),
    )
    for change in changes:
        before = ovn_projection.topology_rows.fingerprint()
        change()
        assert ovn_projection.topology_rows.fingerprint() != before


def test_rows_edited_by_hand_are_repaired(
    lab: ovn.Lab, people: Any, projection: OvnProjection, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ovn_projection, "FULL_PASS_SECONDS", 0.0)
    ana = people.ana.context()
    make_balancer(ana, make_network(people.ana), "10.0.0.11")
    projection.carry_out()
    written = rows(lab)
    lab.nb("lb-add", "of-others", "192.0.2.1:80", "192.0.2.2:80")
    name = lab.nb("--bare", "--columns=name", "find", "Load_Balancer", "protocol=tcp", "external_ids!={}").strip()
    lab.nb("set", "Load_Balancer", name, f'vips:"{VIP}:80"="192.0.2.66:1"')

    def is_repaired() -> bool:
        projection.carry_out()  # one before the replica has the edit repairs nothing
        return f'"{VIP}:80"="10.0.0.11:{PORT}"' in rows(lab)

    wait_until("the member is the row's again", is_repaired)
    lab.nb("lb-del", name)
    wait_until("the load balancer is there again", is_repaired)
    assert "of-others" in rows(lab)
    lab.nb("lb-del", "of-others")
    assert rows(lab) == written


def test_clients_reach_members_from_their_network_through_the_router_and_from_outside(
    lab: ovn.Lab, people: Any, projection: OvnProjection
) -> None:
    h1, h2 = lab.add_host("h1"), lab.add_host("h2")
    outside = lab.connect_outside(h2)
    ana, admin = people.ana.context(), people.admin.context()
    network = make_network(people.ana)
    second = str(operations.create_network(ana, {"name": "second"}).uuid)
    subnets.create_subnet(ana, SubnetCreate(network_id=second, cidr="10.0.1.0/24"))
    public = str(operations.create_network(admin, {"name": "public", "is_external": True, **GATEWAY_MAPPING}).uuid)
    subnets.create_subnet(
        admin,
        SubnetCreate(network_id=public, cidr="198.51.100.0/24", gateway_ip=ovn.OUTSIDE_ADDRESS, is_dhcp_enabled=False),
    )
    router = RouterCreate({"name": "way-out"}, has_gateway=True, gateway=GatewayRequest(public))
    router_id = str(routers.create_router(ana, router).uuid)
    for inner in (network, second):
        router_interfaces.add(ana, router_id, subnet_id=subnet_of(inner))
    ports = {name: add_port(people, on, host.name) for name, on, host in (
        ("one", network, h1), ("two", network, h2), ("near", network, h1), ("far", second, h2))}  # fmt: skip
    http = SecurityGroupRuleCreate(
        "ingress", protocol="tcp", port_range_min=PORT, port_range_max=PORT, group_id=group_of(ports["one"])
    )
    security_groups.create_rule(ana, http)
    balancer, pool = make_balancer(ana, network, address_of(ports["one"]), address_of(ports["two"]))
    monitor(ana, pool)
    vip_port = str(LoadBalancer.objects.get(uuid=balancer).vip_port.uuid)
    floating = floating_ips.create_floating_ip(ana, FloatingIpCreate(network_id=public, port_id=vip_port)).address
    projection.carry_out()
    guests = {
        name: lab.add_guest(host, str(port.uuid), port.mac_address, f"{address_of(port)}/24", gateway)
        for name, host, gateway, port in (
            ("one", h1, "10.0.0.1", ports["one"]), ("two", h2, "10.0.0.1", ports["two"]),
            ("near", h1, "10.0.0.1", ports["near"]), ("far", h2, "10.0.1.1", ports["far"]),
        )
    }  # fmt: skip
    clients = {"near": (guests["near"], VIP), "far": (guests["far"], VIP), "outside": (outside, floating)}

    def answered(client: NetworkNamespace, address: str, words: set[bytes]) -> bool:
        return {reads(client, address) for _ in range(8)} == words

    def operating(wanted: str) -> bool:
        projection.carry_out()
        return status(ana, balancer) == ("ACTIVE", wanted)

    with serving(guests["one"], b"one", PORT):
        with serving(guests["two"], b"two", PORT):
            wait_until("both members are online", lambda: operating("ONLINE"))
            for name, (client, address) in clients.items():
                wait_until(f"both members answer {name}", lambda: answered(client, address, WORDS))  # noqa: B023
        wait_until("the second member is found dead", lambda: operating("DEGRADED"))
        for name, (client, address) in clients.items():
            wait_until(f"only the first one answers {name}", lambda: answered(client, address, {b"one"}))  # noqa: B023
    assert lab.flow_warnings() == []
