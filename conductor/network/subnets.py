"""Subnets: ranges of addresses on a network, given or cut from a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.network import filters, ranges
from conductor.network.errors import InvalidInput, SubnetInUse, SubnetNotFound
from conductor.network.filters import ListQuery
from conductor.network.models import AddressAllocation, Network, Subnet, SubnetPool
from conductor.network.operations import get_pool, own_network, touch
from conductor.network.ranges import Pool, Range
from conductor.transactions import write_tx

DEFAULT_GATEWAY = "default"


@dataclass(frozen=True, slots=True)
class SubnetWish:
    """A range by `cidr`, or cut from a pool. `gateway_ip` None means no gateway; `pools` None means all addresses."""

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


def visible_subnets(context: RequestContext) -> QuerySet[Subnet]:
    rows = Subnet.objects.select_related("network", "pool")
    if context.is_admin:
        return rows
    return rows.filter(
        Q(project_id=context.project_id) | Q(network__is_shared=True) | Q(network__is_external=True)
    )  # fmt: skip


def list_subnets(context: RequestContext, query: ListQuery) -> list[Subnet]:
    return filters.select(visible_subnets(context), query, filters.SUBNETS)


def get_subnet(context: RequestContext, subnet_id: str) -> Subnet:
    """Raises SubnetNotFound, also for one that the caller may not see."""
    wanted = uuid_or_none(subnet_id)
    subnet = visible_subnets(context).filter(uuid=wanted).first() if wanted else None
    if subnet is None:
        raise SubnetNotFound(f"Subnet {subnet_id} could not be found.")
    return subnet


def create_subnet(context: RequestContext, wish: SubnetWish) -> Subnet:
    """Raises InvalidInput when the range is bad or overlaps with another one of the network."""
    with write_tx():
        network = own_network(context, wish.network_id, is_locked=True)
        pool = get_pool(context, wish.pool_id) if wish.pool_id else None
        address_range = _cut(pool, wish) if pool else _given(network, wish)
        gateway_ip = _gateway(address_range, wish.gateway_ip)
        pools = _pools(address_range, gateway_ip, wish.pools)
        now = timezone.now()
        subnet = Subnet.objects.create(
            network=network,
            pool=pool,
            name=wish.name,
            description=wish.description,
            project_id=network.project_id,
            ip_version=address_range.version,
            cidr=str(address_range),
            gateway_ip=gateway_ip,
            allocation_pools=pools,
            is_dhcp_enabled=wish.is_dhcp_enabled,
            dns_nameservers=_servers(wish.dns_nameservers),
            host_routes=_routes(wish.host_routes, address_range.version),
            created_at=now,
            updated_at=now,
        )
    return get_subnet(context, str(subnet.uuid))


def update_subnet(context: RequestContext, subnet_id: str, changes: Mapping[str, Any]) -> Subnet:
    """`changes` maps field names of Subnet to values."""
    with write_tx():
        subnet = _own(context, subnet_id)
        address_range = ranges.parse_range(subnet.cidr, subnet.ip_version)
        values = dict(changes)
        if "allocation_pools" in values:
            values["allocation_pools"] = ranges.checked_pools(address_range, values["allocation_pools"])
        if "gateway_ip" in values:
            values["gateway_ip"] = _gateway(address_range, values["gateway_ip"])
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
    """Raises SubnetInUse while a port holds one of its addresses."""
    with write_tx():
        subnet = _own(context, subnet_id)
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


def _given(network: Network, wish: SubnetWish) -> Range:
    if wish.cidr is None:
        raise InvalidInput("Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
    address_range = ranges.parse_range(wish.cidr, wish.ip_version)
    if address_range.num_addresses < 2 or address_range.prefixlen == 0:
        raise InvalidInput(f"Invalid input for cidr. Reason: '{wish.cidr}' has no room for hosts, or is no range.")
    _refuse_overlap(network, address_range)
    return address_range


def _cut(pool: SubnetPool, wish: SubnetWish) -> Range:
    """Other transactions that cut from this pool wait until ours has ended."""
    if wish.cidr is not None:
        raise InvalidInput("Bad subnets request: give a cidr or a subnetpool, not both.")
    SubnetPool.objects.select_for_update().get(pk=pool.pk)
    prefix_length = wish.prefix_length or pool.default_prefix_length
    prefixes = [prefix for prefix in pool.prefixes if ranges.version_of(prefix) == wish.ip_version]
    if not prefixes:
        raise InvalidInput(f"Subnet pool {pool.uuid} has no IPv{wish.ip_version} prefixes.")
    network_cidrs = Network.objects.get(uuid=wish.network_id).subnets.values_list("cidr", flat=True)
    taken = [*Subnet.objects.filter(pool=pool).values_list("cidr", flat=True), *network_cidrs]
    address_range = ranges.cut(prefixes, prefix_length, taken)
    if address_range is None:
        raise InvalidInput(f"Insufficient prefix space to allocate subnet size /{prefix_length}.")
    return address_range


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
