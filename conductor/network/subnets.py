"""Subnets: address ranges of a network, given or taken from a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.network import addresses, filters, ipv6_modes, quotas, ranges, subnet_pools
from conductor.network.device_owners import ROUTER_INTERFACE
from conductor.network.errors import GatewayIpInUse, InvalidInput, SubnetInUse, SubnetNotFound, SubnetPoolQuotaExceeded
from conductor.network.filters import NetworkListQuery
from conductor.network.models import AddressAllocation, Network, Port, Subnet, SubnetPool
from conductor.network.operations import own_network, seen_by
from conductor.network.ranges import Pool, Range
from conductor.network.revisions import touch
from conductor.network.subnet_pools import get_pool

DEFAULT_GATEWAY = "default"


@dataclass(frozen=True, slots=True)
class SubnetCreate:
    """A subnet to create, by `cidr`, from a pool, or both: that part of the pool.

    `gateway_ip` None means no gateway; `pools` None means all addresses.
    """

    network_id: str
    ip_version: int = 4
    cidr: str | None = None
    pool_id: str | None = None
    prefix_length: int | None = None
    gateway_ip: str | None = DEFAULT_GATEWAY
    pools: Sequence[Pool] | None = None
    name: str = ""
    description: str = ""
    is_dhcp_enabled: bool = True
    dns_nameservers: Sequence[str] = ()
    host_routes: Sequence[Mapping[str, str]] = ()
    is_from_default_pool: bool = False
    ipv6_address_mode: str | None = None
    ipv6_ra_mode: str | None = None
    service_types: Sequence[str] = ()
    tag_text: str = ""


def visible_subnets(context: RequestContext) -> QuerySet[Subnet]:
    rows = Subnet.objects.select_related("network", "pool")
    if context.is_admin:
        return rows
    seen = Network.objects.filter(seen_by(context.project_id))
    return rows.filter(Q(project_id=context.project_id) | Q(network__in=seen.values("pk")))


def list_subnets(context: RequestContext, query: NetworkListQuery) -> list[Subnet]:
    return filters.select(visible_subnets(context), query, filters.SUBNETS)


def get_subnet(context: RequestContext, subnet_id: str) -> Subnet:
    """Return a subnet. Raises SubnetNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_subnets(context), subnet_id, SubnetNotFound(f"Subnet {subnet_id} could not be found.")
    )


def create_subnet(context: RequestContext, requested: SubnetCreate) -> Subnet:
    """Create a subnet. Raises InvalidInput when the range is bad or overlaps with another one of the network."""
    with write_tx():
        quotas.require(own_network(context, requested.network_id).project_id, "subnet")
        network = own_network(context, requested.network_id, is_locked=True)
        pool = _pool(context, requested)
        address_range = _cut(pool, network, requested) if pool else _given(network, requested)
        ipv6_modes.check(address_range, requested)
        gateway_ip = _gateway(address_range, requested.gateway_ip)
        pools = _pools(address_range, gateway_ip, requested.pools)
        now = timezone.now()
        subnet = Subnet.objects.create(
            network=network,
            pool=pool,
            name=requested.name,
            description=requested.description,
            project_id=network.project_id,
            ip_version=address_range.version,
            cidr=str(address_range),
            gateway_ip=gateway_ip,
            allocation_pools=pools,
            is_dhcp_enabled=requested.is_dhcp_enabled,
            dns_nameservers=_servers(requested.dns_nameservers),
            host_routes=_routes(requested.host_routes, address_range.version),
            ipv6_address_mode=requested.ipv6_address_mode,
            ipv6_ra_mode=requested.ipv6_ra_mode,
            service_types=list(requested.service_types),
            tag_text=requested.tag_text,
            created_at=now,
            updated_at=now,
        )
        _give_automatic_addresses(subnet)
    return get_subnet(context, str(subnet.uuid))


def update_subnet(context: RequestContext, subnet_id: str, changes: Mapping[str, Any]) -> Subnet:
    """Update a subnet; `changes` maps field names to values."""
    with write_tx():
        subnet = _own(context, subnet_id)
        address_range = ranges.parse_range(subnet.cidr, subnet.ip_version)
        values = dict(changes)
        if "allocation_pools" in values:
            values["allocation_pools"] = ranges.checked_pools(address_range, values["allocation_pools"])
            values |= {"lowest_gap": "", "gap_epoch": F("gap_epoch") + 1}  # the new pools may begin lower
        if "gateway_ip" in values:
            values["gateway_ip"] = _gateway(address_range, values["gateway_ip"])
            _refuse_gateway_in_use(subnet, values["gateway_ip"])
        if values.keys() & {"gateway_ip", "allocation_pools"}:
            pools = values.get("allocation_pools", subnet.allocation_pools)
            ranges.require_outside(values.get("gateway_ip", subnet.gateway_ip), pools)
        if "dns_nameservers" in values:
            values["dns_nameservers"] = _servers(values["dns_nameservers"])
        if "host_routes" in values:
            values["host_routes"] = _routes(values["host_routes"], subnet.ip_version)
        touch(Subnet.objects.filter(pk=subnet.pk), **values)
    return get_subnet(context, subnet_id)


def delete_subnet(context: RequestContext, subnet_id: str) -> None:
    """Delete a subnet. Raises SubnetInUse while a port has an allocated address of it."""
    with write_tx():
        subnet = _own(context, subnet_id)
        _free_automatic_addresses(subnet)
        if AddressAllocation.objects.filter(subnet=subnet).exists():
            raise SubnetInUse(
                f"Unable to complete operation on subnet {subnet_id}: One or more ports have an IP allocation from "
                "this subnet."
            )
        subnet.delete()


def _own(context: RequestContext, subnet_id: str) -> Subnet:
    subnet = get_subnet(context, subnet_id)
    if not context.may_see_project(subnet.project_id):
        raise Forbidden(f"Subnet {subnet_id} belongs to another project.", type="PolicyNotAuthorized")
    return subnet


def _given(network: Network, requested: SubnetCreate) -> Range:
    if requested.cidr is None:
        raise InvalidInput("Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
    address_range = ranges.parse_range(requested.cidr, requested.ip_version)
    if address_range.num_addresses < 2 or address_range.prefixlen == 0:
        raise InvalidInput(f"Invalid input for cidr. Reason: '{requested.cidr}' has no room for hosts, or is no range.")
    _refuse_overlap(network, address_range)
    return address_range


def _pool(context: RequestContext, requested: SubnetCreate) -> SubnetPool | None:
    if requested.pool_id:
        return get_pool(context, requested.pool_id)
    if not requested.is_from_default_pool:
        return None
    pool = subnet_pools.default_pool(requested.ip_version)
    if pool is None:
        raise InvalidInput(f"No default subnetpool found for IPv{requested.ip_version}.")
    return pool


def _cut(pool: SubnetPool, network: Network, requested: SubnetCreate) -> Range:
    """Take a range of the pool. Other transactions that do so wait until this one ends."""
    SubnetPool.objects.select_for_update().get(pk=pool.pk)
    prefixes = [prefix for prefix in pool.prefixes if ranges.version_of(prefix) == requested.ip_version]
    if not prefixes:
        raise InvalidInput(f"Subnet pool {pool.uuid} has no IPv{requested.ip_version} prefixes.")
    cut = list(Subnet.objects.filter(pool=pool).values_list("project_id", "cidr"))
    taken = [cidr for _, cidr in cut]
    if requested.cidr is not None:
        address_range = _chosen(pool, network, requested, taken)
    else:
        prefix_length = requested.prefix_length or pool.default_prefix_length
        _check_length(pool, prefix_length)
        free = ranges.cut(prefixes, prefix_length, [*taken, *network.subnets.values_list("cidr", flat=True)])
        if free is None:
            raise InvalidInput(f"Insufficient prefix space to allocate subnet size /{prefix_length}.")
        address_range = free
    held = [cidr for project_id, cidr in cut if project_id == network.project_id]
    if pool.default_quota is not None and ranges.blocks([*held, str(address_range)]) > pool.default_quota:
        raise SubnetPoolQuotaExceeded(f"Per-tenant subnet pool prefix quota exceeded: {pool.default_quota} is all.")
    return address_range


def _chosen(pool: SubnetPool, network: Network, requested: SubnetCreate, taken: Sequence[str]) -> Range:
    """Return the requested range of the pool."""
    address_range = _given(network, requested)
    _check_length(pool, address_range.prefixlen)
    if not any(ranges.is_within(address_range, prefix) for prefix in pool.prefixes):
        raise InvalidInput(f"Cannot allocate requested subnet {address_range}: it is not in pool {pool.uuid}.")
    if other := ranges.first_overlap(address_range, taken):
        raise InvalidInput(f"Cannot allocate requested subnet {address_range}: {other} is cut from the pool already.")
    return address_range


def _check_length(pool: SubnetPool, prefix_length: int) -> None:
    if not pool.min_prefix_length <= prefix_length <= pool.max_prefix_length:
        raise InvalidInput(
            f"Unable to allocate subnet with prefix length {prefix_length}: pool {pool.uuid} allows "
            f"{pool.min_prefix_length} to {pool.max_prefix_length}."
        )


def _refuse_gateway_in_use(subnet: Subnet, wanted: str | None) -> None:
    """Raise if a router has the gateway address that is changed, as the router would keep the old one."""
    if not subnet.gateway_ip or wanted == subnet.gateway_ip:
        return
    held = AddressAllocation.objects.filter(subnet=subnet, ip_address=subnet.gateway_ip)
    port = held.filter(port__device_owner=ROUTER_INTERFACE).values_list("port__uuid", flat=True).first()
    if port is not None:
        raise GatewayIpInUse(f"Current gateway ip {subnet.gateway_ip} already in use by port {port}. Unable to update.")


def _refuse_overlap(network: Network, address_range: Range) -> None:
    other = ranges.first_overlap(address_range, network.subnets.values_list("cidr", flat=True))
    if other is not None:
        raise InvalidInput(
            f"Requested subnet with cidr: {address_range} for network: {network.uuid} overlaps with another subnet "
            f"({other})."
        )


def _gateway(address_range: Range, wanted: str | None) -> str | None:
    if wanted is None:
        return None
    if wanted == DEFAULT_GATEWAY:
        return ranges.default_gateway(address_range)
    gateway = ranges.parse_address(wanted, address_range.version, "gateway_ip")
    first, last = ranges.host_bounds(address_range)
    if not first <= int(gateway) <= last:
        raise InvalidInput(f"Gateway {gateway} is not valid on subnet {address_range}.")
    return str(gateway)


def _pools(address_range: Range, gateway_ip: str | None, wanted: Sequence[Pool] | None) -> list[dict[str, str]]:
    if wanted is None:
        return ranges.default_pools(address_range, gateway_ip)
    pools = ranges.checked_pools(address_range, wanted)
    ranges.require_outside(gateway_ip, pools)
    return pools


def _servers(wanted: Sequence[str]) -> list[str]:
    servers = [str(ranges.parse_any_address(server, "dns_nameservers")) for server in wanted]
    if len(set(servers)) != len(servers):
        raise InvalidInput("Invalid input for dns_nameservers. Reason: Duplicate items in the list.")
    return servers


def _routes(wanted: Sequence[Mapping[str, str]], ip_version: int) -> list[dict[str, str]]:
    return [
        {
            "destination": str(ranges.parse_range(route["destination"], ip_version)),
            "nexthop": str(ranges.parse_address(route["nexthop"], ip_version, "host_routes")),
        }
        for route in wanted
    ]


# Routers have only addresses that were assigned to them.
_ROUTERS = "network:router"


def _give_automatic_addresses(subnet: Subnet) -> None:
    """Allocate an automatic address of a new subnet to each port on its network."""
    if not ipv6_modes.is_automatic(subnet):
        return
    for port in Port.objects.filter(network=subnet.network_id).exclude(device_owner__startswith="network:"):
        addresses.allocate(subnet, port)


def _free_automatic_addresses(subnet: Subnet) -> None:
    """Free automatic addresses, so that they do not block the subnet's deletion."""
    if ipv6_modes.is_automatic(subnet):
        AddressAllocation.objects.filter(subnet=subnet).exclude(port__device_owner__startswith=_ROUTERS).delete()
