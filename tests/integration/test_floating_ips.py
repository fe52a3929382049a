"""Floating IPs under races: no address is held twice, none leads twice, and quotas hold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from conductor.core.context import system_context
from conductor.core.errors import NovellaError
from conductor.network import floating_ips, operations, port_operations, quotas, router_interfaces, routers, subnets
from conductor.network.floating_ips import FloatingIpChange, FloatingIpWish
from conductor.network.models import AddressAllocation, FloatingIp, Port
from conductor.network.port_operations import PortWish
from conductor.network.routers import GatewayWish, RouterWish
from conductor.network.subnets import SubnetWish

THREADS = 6


def make_outside(cidr: str) -> str:
    context = system_context()
    network = operations.create_network(context, {"name": "outside", "is_external": True})
    subnets.create_subnet(context, SubnetWish(network_id=str(network.uuid), cidr=cidr))
    return str(network.uuid)


def at_once(work: Callable[[int], Any], times: int) -> list[str]:
    """The name of each refusal, "" for what was done."""

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


def test_many_takers_never_share_an_address(people: Any) -> None:
    outside = make_outside("198.18.0.0/29")
    wish = FloatingIpWish(network_id=outside)
    told = at_once(lambda _: floating_ips.create_floating_ip(people.ana.context(), wish), 8)
    assert told == [""] * 5 + ["IpAddressGenerationFailure"] * 3
    held = sorted(FloatingIp.objects.values_list("address", flat=True))
    assert held == sorted(AddressAllocation.objects.values_list("ip_address", flat=True))
    assert len(set(held)) == 5
    assert Port.objects.count() == 5


def test_takers_at_once_keep_to_the_quota(people: Any) -> None:
    outside = make_outside("198.18.0.0/24")
    ana = people.ana
    quotas.set_limits(people.admin.context(), ana.project.id, {"floatingip": 3}, is_checked=False)
    told = at_once(lambda _: floating_ips.create_floating_ip(ana.context(), FloatingIpWish(network_id=outside)), 8)
    assert told == [""] * 3 + ["OverQuota"] * 5
    assert FloatingIp.objects.count() == Port.objects.count() == 3


def test_only_one_leads_to_an_address(people: Any) -> None:
    outside, ana = make_outside("198.18.0.0/24"), people.ana.context()
    network_id = str(operations.create_network(ana, {"name": "inner"}).uuid)
    subnet = subnets.create_subnet(ana, SubnetWish(network_id=network_id, cidr="10.0.0.0/24"))
    router = routers.create_router(ana, RouterWish({}, has_gateway=True, gateway=GatewayWish(outside)))
    router_interfaces.add(ana, str(router.uuid), subnet_id=str(subnet.uuid))
    port_id = str(port_operations.create_port(ana, PortWish(network_id=network_id)).uuid)
    made = [str(floating_ips.create_floating_ip(ana, FloatingIpWish(network_id=outside)).uuid) for _ in range(THREADS)]
    change = FloatingIpChange(port_id=port_id)
    told = at_once(lambda number: floating_ips.update_floating_ip(ana, made[number], change), THREADS)
    assert told == [""] + ["FloatingIPPortAlreadyAssociated"] * (THREADS - 1)
    assert FloatingIp.objects.filter(port__uuid=port_id, fixed_ip_address="10.0.0.2").count() == 1
