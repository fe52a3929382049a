"""The networks of a new cloud, for all projects: one for servers, and one external."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from conductor.core.context import RequestContext, system_context
from conductor.db.transactions import write_tx
from conductor.network import operations, router_interfaces, routers, subnets
from conductor.network.models import Network, Subnet, SubnetPool
from conductor.network.provider_networks import DEFAULT_KIND
from conductor.network.revisions import touch
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.subnets import SubnetCreate

POOL_PREFIX = "10.64.0.0/16"
# Room for some four thousand servers.
SUBNET_PREFIX_LENGTH = 20
# A range reserved for benchmarks, which is not on the internet: an operator replaces it by the real one.
EXTERNAL_CIDR = "198.18.0.0/20"
ROUTER = "way-out"
FLAT = "flat"  # a physical network without VLANs


def seed(project_id: str, *, leads_out: bool = False) -> None:
    """Create `default-pool`, shared network `private`, external network `public` and their subnets, where missing.

    With `leads_out` a new `public` gets a router from `private`: floating IPs reach servers there from the start.
    """
    context = system_context()
    with write_tx():
        pool = SubnetPool.objects.filter(name="default-pool", project_id=project_id).first() or _make_pool(project_id)
        inside = _network(context, project_id, name="private", is_shared=True)
        _subnet(context, inside, pool_id=str(pool.uuid), prefix_length=SUBNET_PREFIX_LENGTH)
        has_outside = Network.objects.filter(is_external=True).exists()
        if not has_outside:
            outside = _network(context, project_id, name="public", is_external=True, is_default=True)
            _subnet(context, outside, cidr=EXTERNAL_CIDR, is_dhcp_enabled=False)
            if leads_out:
                _lead(context, project_id, inside, outside)


@dataclass(frozen=True, slots=True)
class Outside:
    """The external network of the cloud; `gateway` is its gateway's address with the length of the prefix."""

    network_id: int
    physical_network: str
    gateway: str


def outside() -> Outside | None:
    """Return the default external network, if it has an IPv4 subnet with a gateway, and no segment of a VLAN."""
    found = Subnet.objects.filter(network__is_external=True, network__is_default=True, ip_version=4)
    subnet = found.exclude(gateway_ip=None).select_related("network").order_by("pk").first()
    if subnet is None or not subnet.gateway_ip or subnet.network.provider_type not in ("", DEFAULT_KIND, FLAT):
        return None
    length = subnet.cidr.rpartition("/")[2]
    return Outside(subnet.network_id, subnet.network.physical_network, f"{subnet.gateway_ip}/{length}")


def map_outside(outside: Outside, physical_network: str) -> None:
    """Map the external network to a physical one. Requests cannot do so later than when they create a network."""
    if outside.physical_network != physical_network:
        with write_tx():
            network = Network.objects.filter(pk=outside.network_id)
            touch(network, provider_type=FLAT, physical_network=physical_network)


def _make_pool(project_id: str) -> SubnetPool:
    now = timezone.now()
    return SubnetPool.objects.create(
        name="default-pool",
        project_id=project_id,
        is_shared=True,
        is_default=True,
        prefixes=[POOL_PREFIX],
        created_at=now,
        updated_at=now,
    )


def _network(context: RequestContext, project_id: str, **wanted: Any) -> Network:
    there = Network.objects.filter(name=wanted["name"], project_id=project_id).first()
    return there or operations.create_network(context, {"project_id": project_id, **wanted})


def _lead(context: RequestContext, project_id: str, inside: Network, outside: Network) -> None:
    way_out = RouterCreate(
        {"name": ROUTER, "project_id": project_id}, has_gateway=True, gateway=GatewayRequest(str(outside.uuid))
    )
    router = routers.create_router(context, way_out)
    subnet = inside.subnets.order_by("pk").first()
    if subnet is not None and subnet.gateway_ip:
        router_interfaces.add(context, str(router.uuid), subnet_id=str(subnet.uuid))


def _subnet(context: RequestContext, network: Network, **wanted: Any) -> None:
    if not network.subnets.exists():
        requested = SubnetCreate(network_id=str(network.uuid), name=f"{network.name}-subnet", **wanted)
        subnets.create_subnet(context, requested)
