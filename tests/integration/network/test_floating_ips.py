"""Floating IPs under races: no address is held twice, none leads twice, and quotas hold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from django.db import connections

from conductor.core.context import RequestContext, system_context
from conductor.core.errors import NovellaError
from conductor.db.transactions import write_tx
from conductor.network import (
    floating_ips,
    operations,
    port_operations,
    ports,
    quotas,
    router_interfaces,
    routers,
    subnets,
)
from conductor.network.floating_ips import FloatingIpChange, FloatingIpCreate
from conductor.network.models import AddressAllocation, FloatingIp, Port
from conductor.network.port_operations import PortCreate
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.subnets import SubnetCreate

THREADS = 6


def make_outside(cidr: str) -> str:
    context = system_context()
    network = operations.create_network(context, {"name": "outside", "is_external": True})
    subnets.create_subnet(context, SubnetCreate(network_id=str(network.uuid), cidr=cidr))
    return str(network.uuid)


def at_once(work: Callable[[int], Any], times: int) -> list[str]:
    """Return the name of each refusal, "" for what was done."""

    def one(number: int) -> str:
        try:
            work(number)
        except NovellaError as error:
            return type(error).__name__
        finally:
            connections.close_all()
        return ""

    with ThreadPoolExecutor(THREADS) as pool:
        return sorted(pool.map(one, range(times)))


def test_concurrent_allocations_never_share_a_floating_ip(people: Any) -> None:
    outside = make_outside("198.18.0.0/29")
    requested = FloatingIpCreate(network_id=outside)
    message = at_once(lambda _: floating_ips.create_floating_ip(people.ana.context(), requested), 8)
    assert message == [""] * 5 + ["IpAddressGenerationFailure"] * 3
    held = sorted(FloatingIp.objects.values_list("address", flat=True))
    assert held == sorted(AddressAllocation.objects.values_list("ip_address", flat=True))
    assert len(set(held)) == 5
    assert Port.objects.count() == 5


def test_concurrent_allocations_stay_within_the_quota(people: Any) -> None:
    outside = make_outside("198.18.0.0/24")
    ana = people.ana
    quotas.set_limits(people.admin.context(), ana.project.id, {"floatingip": 3}, is_checked=False)
    message = at_once(lambda _: floating_ips.create_floating_ip(ana.context(), FloatingIpCreate(network_id=outside)), 8)
    assert message == [""] * 3 + ["OverQuota"] * 5
    assert FloatingIp.objects.count() == Port.objects.count() == 3


def make_way_out(context: RequestContext) -> tuple[str, str]:
    """Create an external network and one of the caller's, joined by a router; return their ids."""
    outside = make_outside("198.18.0.0/24")
    network_id = str(operations.create_network(context, {"name": "inner"}).uuid)
    subnet = subnets.create_subnet(context, SubnetCreate(network_id=network_id, cidr="10.0.0.0/24"))
    router = routers.create_router(context, RouterCreate({}, has_gateway=True, gateway=GatewayRequest(outside)))
    router_interfaces.add(context, str(router.uuid), subnet_id=str(subnet.uuid))
    return outside, network_id


def test_only_one_floating_ip_is_attached_to_an_address(people: Any) -> None:
    ana = people.ana.context()
    outside, network_id = make_way_out(ana)
    port_id = str(port_operations.create_port(ana, PortCreate(network_id=network_id)).uuid)
    made = [
        str(floating_ips.create_floating_ip(ana, FloatingIpCreate(network_id=outside)).uuid) for _ in range(THREADS)
    ]
    change = FloatingIpChange(port_id=port_id)
    message = at_once(lambda number: floating_ips.update_floating_ip(ana, made[number], change), THREADS)
    assert message == [""] + ["FloatingIPPortAlreadyAssociated"] * (THREADS - 1)
    assert FloatingIp.objects.filter(port__uuid=port_id, fixed_ip_address="10.0.0.2").count() == 1


def test_deleting_a_server_keeps_its_floating_ip(people: Any) -> None:
    ana = people.ana.context()
    outside, network_id = make_way_out(ana)
    instance = str(uuid4())
    wanted = {"network_id": network_id, "port_id": "", "fixed_ip": ""}
    with write_tx():
        (plugged,) = ports.plug(
            instance_uuid=instance,
            project_id=ana.project_id,
            networks=[wanted],
            binding=ports.Binding("host-1", "compute:nova"),
        )
    requested = FloatingIpCreate(network_id=outside, port_id=plugged["port_uuid"])
    made = floating_ips.create_floating_ip(ana, requested)
    assert (made.fixed_ip_address, made.router is None) == ("10.0.0.2", False)
    with write_tx():
        ports.unplug(instance)
    left = floating_ips.get_floating_ip(ana, str(made.uuid))
    assert (left.port, left.fixed_ip_address, left.router, left.address) == (None, None, None, made.address)
    assert not Port.objects.filter(uuid=plugged["port_uuid"]).exists()
