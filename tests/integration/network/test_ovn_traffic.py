"""Packets between guests of two hosts and the external network, with networks created by the network API."""

from __future__ import annotations

from typing import Any

from conductor.network import (
    floating_ips,
    operations,
    router_interfaces,
    routers,
    security_groups,
    subnets,
)
from conductor.network.floating_ips import FloatingIpCreate
from conductor.network.models import Port
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.network.subnets import SubnetCreate
from conductor.services.networks.ovn_projection import OvnProjection
from tests.fixtures.ovn_ports import GATEWAY_MAPPING, add_port, address_of, group_of, subnet_of
from tests.fixtures.ports import make_network
from tests.fixtures.tcp import reads, serving
from tests.services import ovn
from tests.waiting import wait_until


def test_guests_reach_each_other_and_the_external_network_as_configured(
    lab: ovn.Lab, people: Any, projection: OvnProjection
) -> None:
    hosts = {name: lab.add_host(name) for name in ("h1", "h2", "h3")}
    outside = lab.connect_outside(hosts["h3"])
    hosts["h3"].vsctl("set", "Open_vSwitch", ".", "external-ids:ovn-cms-options=enable-chassis-as-gw")
    ana, admin = people.ana.context(), people.admin.context()
    network = make_network(people.ana)
    public = str(operations.create_network(admin, {"name": "public", "is_external": True, **GATEWAY_MAPPING}).uuid)
    subnets.create_subnet(
        admin,
        SubnetCreate(network_id=public, cidr="198.51.100.0/24", gateway_ip=ovn.OUTSIDE_ADDRESS, is_dhcp_enabled=False),
    )
    router = RouterCreate({"name": "way-out"}, has_gateway=True, gateway=GatewayRequest(public))
    router_id = str(routers.create_router(ana, router).uuid)
    router_interfaces.add(ana, router_id, subnet_id=subnet_of(network))
    web, db = add_port(people, network, "h1"), add_port(people, network, "h2")
    floating = floating_ips.create_floating_ip(ana, FloatingIpCreate(network_id=public, port_id=str(web.uuid))).address
    projection.carry_out()

    web_guest, db_guest = (
        lab.add_guest(hosts[host], str(port.uuid), port.mac_address, f"{address_of(port)}/24", "10.0.0.1")
        for port, host in ((web, "h1"), (db, "h2"))
    )

    leased = db_guest.run("busybox", "udhcpc", "-n", "-q", "-f", "-i", "eth0", "-s", "/bin/true")
    assert leased.returncode == 0, leased.stderr
    wait_until("guests of one group meet", lambda: db_guest.pings(address_of(web)))
    wait_until("a guest without a floating IP reaches the outside", lambda: db_guest.pings(ovn.OUTSIDE_ADDRESS))
    wait_until("a guest with one does, too", lambda: web_guest.pings(ovn.OUTSIDE_ADDRESS))
    wait_until("ports are active", lambda: _are_active(projection, web, db))
    with serving(web_guest):
        assert reads(outside, floating) == b""
        http = SecurityGroupRuleCreate(
            "ingress", protocol="tcp", port_range_min=80, port_range_max=80, group_id=group_of(web)
        )
        rule = security_groups.create_rule(ana, http)
        projection.carry_out()
        wait_until("a page is read from outside", lambda: reads(outside, floating) == b"hello")
        assert reads(outside, floating, 22) == b""
        assert not outside.pings(floating)
        security_groups.delete_rule(ana, str(rule.uuid))
        projection.carry_out()
        wait_until("no page is read any more", lambda: reads(outside, floating) == b"")
    assert db_guest.pings(address_of(web))
    assert lab.flow_warnings() == []


def _are_active(projection: OvnProjection, *created: Port) -> bool:
    projection.carry_out()
    return set(Port.objects.filter(pk__in=[port.pk for port in created]).values_list("status", flat=True)) == {"ACTIVE"}
