"""Members of pools, and the health monitors that check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.db.transactions import savepoint, write_tx
from conductor.network import addresses, balancer_filters, filters, load_balancers, monitor_ports, quotas
from conductor.network.balancer_pools import get_pool
from conductor.network.errors import (
    DuplicateHealthMonitor,
    DuplicateMember,
    HealthMonitorNotFound,
    InvalidInput,
    InvalidIpForSubnet,
    MemberNotFound,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.load_balancers import TCP, UDP
from conductor.network.models import BalancerPool, HealthMonitor, PoolMember, Subnet
from conductor.network.revisions import touch
from conductor.network.subnets import get_subnet

# Type of a health monitor → the protocol of the pools that it can check.
MONITOR_TYPES: Mapping[str, str] = {"TCP": TCP, "UDP-CONNECT": UDP}


@dataclass(frozen=True, slots=True)
class MemberCreate:
    """A member to create; without a subnet its address is on the subnet of the load balancer's address."""

    pool_id: str
    address: str
    subnet_id: str = ""
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HealthMonitorCreate:
    """A health monitor to create. `values` maps field names of HealthMonitor to values."""

    pool_id: str
    values: Mapping[str, Any]


def visible_members(context: RequestContext) -> QuerySet[PoolMember]:
    rows = PoolMember.objects.select_related("pool__balancer")
    return rows if context.is_admin else rows.filter(pool__balancer__project_id=context.project_id)


def list_members(context: RequestContext, query: NetworkListQuery) -> list[PoolMember]:
    return filters.select(visible_members(context), query, balancer_filters.MEMBERS)


def get_member(context: RequestContext, member_id: str) -> PoolMember:
    """Return a member. Raises MemberNotFound, also for one that the caller may not see."""
    return filters.find_one(visible_members(context), member_id, MemberNotFound(f"Member {member_id} not found."))


def require_in(context: RequestContext, pool_id: str, member_id: str) -> None:
    """Raise PoolNotFound or MemberNotFound unless the pool has the member."""
    if get_member(context, member_id).pool_id != get_pool(context, pool_id).pk:
        raise MemberNotFound(f"Member {member_id} not found.")


def create_member(context: RequestContext, requested: MemberCreate) -> PoolMember:
    """Create a member. Raises DuplicateMember, InvalidInput for an address that is not on the subnet.

    Also raises NotSupported without OVN, PoolNotFound, SubnetNotFound, OverQuota.
    """
    load_balancers.require_ovn()
    with write_tx():
        pool = get_pool(context, requested.pool_id)
        quotas.require(pool.balancer.project_id, "member")
        with _changing_members(pool):
            member = _add_member(context, pool, requested)
    return get_member(context, str(member.uuid))


def update_member(context: RequestContext, member_id: str, changes: Mapping[str, Any]) -> PoolMember:
    with write_tx():
        member = get_member(context, member_id)
        with load_balancers.changing(member.pool.balancer):
            touch(PoolMember.objects.filter(pk=member.pk), **changes)
    return get_member(context, member_id)


def delete_member(context: RequestContext, member_id: str) -> None:
    with write_tx():
        member = get_member(context, member_id)
        with _changing_members(member.pool):
            member.delete()


def visible_monitors(context: RequestContext) -> QuerySet[HealthMonitor]:
    rows = HealthMonitor.objects.select_related("pool__balancer")
    return rows if context.is_admin else rows.filter(pool__balancer__project_id=context.project_id)


def list_monitors(context: RequestContext, query: NetworkListQuery) -> list[HealthMonitor]:
    return filters.select(visible_monitors(context), query, balancer_filters.HEALTH_MONITORS)


def get_monitor(context: RequestContext, monitor_id: str) -> HealthMonitor:
    """Return a health monitor. Raises HealthMonitorNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_monitors(context), monitor_id, HealthMonitorNotFound(f"Health Monitor {monitor_id} not found.")
    )


def create_monitor(context: RequestContext, requested: HealthMonitorCreate) -> HealthMonitor:
    """Create a health monitor. Raises DuplicateHealthMonitor, InvalidInput for a type that the pool cannot have.

    Also raises NotSupported without OVN, PoolNotFound, OverQuota, and for the ports that it needs on the subnets of
    members IpAddressGenerationFailure.
    """
    load_balancers.require_ovn()
    values = dict(requested.values)
    with write_tx():
        pool = get_pool(context, requested.pool_id)
        quotas.require(pool.balancer.project_id, "healthmonitor")
        with _changing_members(pool):
            _refuse_type(pool, values["type"])
            if HealthMonitor.objects.filter(pool=pool).exists():
                raise DuplicateHealthMonitor(f"Pool {pool.uuid} already has a health monitor.", field="pool_id")
            _refuse_short_delay(values["delay"], values["timeout"])
            now = timezone.now()
            monitor = HealthMonitor.objects.create(**values, pool=pool, created_at=now, updated_at=now)
    return get_monitor(context, str(monitor.uuid))


def update_monitor(context: RequestContext, monitor_id: str, changes: Mapping[str, Any]) -> HealthMonitor:
    with write_tx():
        monitor = get_monitor(context, monitor_id)
        with load_balancers.changing(monitor.pool.balancer):
            _refuse_short_delay(changes.get("delay", monitor.delay), changes.get("timeout", monitor.timeout))
            touch(HealthMonitor.objects.filter(pk=monitor.pk), **changes)
    return get_monitor(context, monitor_id)


def delete_monitor(context: RequestContext, monitor_id: str) -> None:
    with write_tx():
        monitor = get_monitor(context, monitor_id)
        with _changing_members(monitor.pool):
            monitor.delete()


@contextmanager
def _changing_members(pool: BalancerPool) -> Iterator[None]:
    """Change the members or their checks in this context; its end creates or deletes the ports for the checks."""
    with load_balancers.changing(pool.balancer):
        yield
        monitor_ports.fit(pool.balancer)


def _add_member(context: RequestContext, pool: BalancerPool, requested: MemberCreate) -> PoolMember:
    subnet, address = _place(context, pool, requested)
    now = timezone.now()
    try:
        with savepoint("default"):
            return PoolMember.objects.create(
                **(requested.values or {}),
                pool=pool,
                address=address,
                subnet_uuid=subnet.uuid,
                created_at=now,
                updated_at=now,
            )
    except IntegrityError:
        raise DuplicateMember(
            f"Another member on this pool is already using ip {address} on its port.", field="address"
        ) from None


def _place(context: RequestContext, pool: BalancerPool, requested: MemberCreate) -> tuple[Subnet, str]:
    """Return the subnet of a member and its normalized address."""
    if requested.subnet_id:
        subnet: Subnet | None = get_subnet(context, requested.subnet_id)
    else:
        subnet = load_balancers.vip_subnet(pool.balancer)
    if subnet is None:
        raise NotFound("The load balancer's address has no subnet: give subnet_id.", field="subnet_id")
    if subnet.network.is_external:
        raise InvalidInput("Invalid input for subnet_id. Members are on networks of projects.", field="subnet_id")
    if (":" in subnet.cidr) != (":" in pool.balancer.vip_address):
        raise InvalidInput(
            "Invalid input for address. Members have the IP version of the load balancer's address.", field="address"
        )
    try:
        return subnet, addresses.usable(subnet, requested.address)
    except InvalidIpForSubnet:
        raise InvalidInput(
            f"Invalid input for address. {requested.address} is not an address of {subnet.cidr}, subnet "
            f"{subnet.uuid}: give the member's subnet as subnet_id.",
            field="address",
        ) from None


def _refuse_type(pool: BalancerPool, name: str) -> None:
    """Raise InvalidInput for a type of health monitor that cannot check the pool's protocol."""
    if MONITOR_TYPES[name] != pool.protocol:
        fitting = ", ".join(other for other, protocol in MONITOR_TYPES.items() if protocol == pool.protocol)
        raise InvalidInput(
            f"Invalid input for type. A pool with protocol {pool.protocol} needs {fitting}.", field="type"
        )


def _refuse_short_delay(delay: int, timeout: int) -> None:
    if delay < timeout:
        raise InvalidInput("Invalid input for delay. It must be at least the timeout.", field="delay")
