"""Load balancers as pages show them: what they lack, the servers of their members, and deletion with all parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from conductor.core.context import RequestContext
from conductor.network import balancer_members, device_owners, load_balancers
from conductor.network.models import AddressAllocation, BalancerListener, BalancerPool, LoadBalancer

ALGORITHM, PROTOCOLS = load_balancers.ALGORITHM, load_balancers.PROTOCOLS
MONITOR_TYPES = balancer_members.MONITOR_TYPES
VIP_OWNER, MONITOR_OWNER = device_owners.BALANCER_VIP, device_owners.BALANCER_MONITOR
LISTENERS, POOL, MEMBERS = "listeners", "pool", "members"


def is_available() -> bool:
    return load_balancers.is_available()


def missing_of(row: LoadBalancer) -> str:
    """Return the parts that a load balancer needs before connections go anywhere; "" for none."""
    if not row.listeners.all():
        return LISTENERS
    return "" if any(pool.members.all() for pool in row.pools.all()) else MEMBERS


def missing_of_listener(row: BalancerListener) -> str:
    return missing_of_pool(row.default_pool) if row.default_pool else POOL


def missing_of_pool(row: BalancerPool) -> str:
    return "" if row.members.all() else MEMBERS


def next_monitor(pools: Iterable[BalancerPool]) -> dict[str, str]:
    """Return the pool and type of the health monitor to add next: for the first pool without one."""
    pool = next((one for one in pools if getattr(one, "health_monitor", None) is None), None)
    if pool is None:
        return {}
    fitting = next(name for name, protocol in MONITOR_TYPES.items() if protocol == pool.protocol)
    return {"pool_id": str(pool.uuid), "type": fitting}


def delete_with_parts(context: RequestContext, balancer_id: str) -> None:
    load_balancers.delete_balancer(context, balancer_id, is_cascade=True)


def servers_at(context: RequestContext, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the ids of the project's servers that have these addresses, by subnet id and address, in one query."""
    rows = AddressAllocation.objects.filter(
        subnet__uuid__in={subnet_id for subnet_id, _ in places},
        ip_address__in={address for _, address in places},
        port__device_owner__startswith=device_owners.COMPUTE,
    )
    rows = rows if context.is_admin else rows.filter(port__project_id=context.project_id)
    held = rows.values_list("subnet__uuid", "ip_address", "port__device_id")
    found = {(str(subnet), address): server for subnet, address, server in held}
    return {place: found[place] for place in places if place in found}


def balancers_at(context: RequestContext, places: Collection[tuple[str, str]]) -> dict[str, str]:
    """Return the names of the load balancers with a member at these subnet ids and addresses, by id, in one query."""
    rows = balancer_members.visible_members(context).filter(
        subnet_uuid__in={subnet_id for subnet_id, _ in places}, address__in={address for _, address in places}
    )
    found = [
        row for row in rows.order_by("pool__balancer__name", "pk") if (str(row.subnet_uuid), row.address) in places
    ]
    return {str(row.pool.balancer.uuid): row.pool.balancer.name for row in found}
