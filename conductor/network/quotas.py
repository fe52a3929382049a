"""Quotas of networks, ports and other resources of a project, and their usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.messages import message
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.network.errors import InvalidQuotaValue, OverQuota
from conductor.network.models import (
    BalancerListener,
    BalancerPool,
    FloatingIp,
    HealthMonitor,
    LoadBalancer,
    Network,
    NetworkQuota,
    PoolMember,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class LimitedResource:
    """A limited resource: its default limit, and the rows that count."""

    limit: int
    model: type[Model]
    owner: str = "project_id"


# Ports of launches count too but are not refused: servers have a quota of their own, and few networks each.
RESOURCES: Mapping[str, LimitedResource] = {
    "network": LimitedResource(100, Network),
    "subnet": LimitedResource(100, Subnet),
    "subnetpool": LimitedResource(100, SubnetPool),
    "port": LimitedResource(500, Port),
    "router": LimitedResource(10, Router),
    "floatingip": LimitedResource(50, FloatingIp),
    "security_group": LimitedResource(10, SecurityGroup),
    "security_group_rule": LimitedResource(100, SecurityGroupRule, "group__project_id"),
    "rbac_policy": LimitedResource(10, RbacPolicy),
    "loadbalancer": LimitedResource(10, LoadBalancer),
    "listener": LimitedResource(50, BalancerListener, "balancer__project_id"),
    "pool": LimitedResource(50, BalancerPool, "balancer__project_id"),
    "member": LimitedResource(200, PoolMember, "pool__balancer__project_id"),
    "healthmonitor": LimitedResource(50, HealthMonitor, "pool__balancer__project_id"),
}


@dataclass(frozen=True, slots=True)
class NetworkUsage:
    """Usage of a resource. `reserved` is always 0: rows are counted in the transaction that creates them."""

    limit: int
    used: int
    reserved: int = 0


def defaults() -> dict[str, int]:
    """Return the limits of projects without their own: an operator's defaults, else the built-in ones."""
    return limits("")


def limits(project_id: str) -> dict[str, int]:
    """Return the limit of every resource, by name."""
    rows = NetworkQuota.objects.filter(project_id__in=(row_limits.DEFAULT_CLASS, project_id))
    by_name: dict[str, dict[str, int]] = {}
    for name, resource, limit in rows.values_list("project_id", "resource", "limit"):
        by_name.setdefault(name, {})[resource] = limit
    built_in = {name: counted.limit for name, counted in RESOURCES.items()}
    return {**built_in, **by_name.get(row_limits.DEFAULT_CLASS, {}), **by_name.get(project_id, {})}


def usages(project_id: str) -> dict[str, NetworkUsage]:
    return {name: NetworkUsage(limit, _used(project_id, name)) for name, limit in limits(project_id).items()}


def list_set() -> dict[str, dict[str, int]]:
    """Return the limits of all projects whose limits differ from the defaults, by project."""
    rows = NetworkQuota.objects.exclude(project_id=row_limits.DEFAULT_CLASS).order_by("project_id")
    everybodys, found = defaults(), dict[str, dict[str, int]]()
    for project_id, resource, limit in rows.values_list("project_id", "resource", "limit"):
        found.setdefault(project_id, dict(everybodys))[resource] = limit
    return found


def set_defaults(context: RequestContext, wanted: Mapping[str, int]) -> None:
    """Set some of the limits of projects without their own. Raises Forbidden."""
    set_limits(context, row_limits.DEFAULT_CLASS, wanted, is_checked=False)


def set_limits(context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_checked: bool) -> None:
    """Set all of them, or none. `is_checked` raises InvalidQuotaValue for a limit below the project's usage."""
    if not context.is_admin:
        raise Forbidden("Only an administrator may change quotas.", type="AdminRequired")
    with write_tx():
        one_at_a_time(DEFAULT_DB_ALIAS, _lock_name(project_id))
        below = [name for name, limit in wanted.items() if is_checked and 0 <= limit < _used(project_id, name)]
        if below:
            raise InvalidQuotaValue(f"Change would make usage exceed the limit for the following resources: {below}.")
        for resource, limit in wanted.items():
            NetworkQuota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})


def reset(project_id: str, resources: Iterable[str] = RESOURCES) -> bool:
    """Reset to the defaults. Return whether any limit differed from them."""
    with write_tx():
        rows = NetworkQuota.objects.filter(project_id=project_id, resource__in=list(resources))
        return bool(rows.delete()[0])


def require(project_id: str, resource: str, wanted: int = 1) -> None:
    """Raise OverQuota if they do not fit; inside the write transaction that creates them, before it locks rows."""
    limit = limits(project_id)[resource]
    if limit == UNLIMITED:
        return
    one_at_a_time(DEFAULT_DB_ALIAS, _lock_name(project_id))
    if _used(project_id, resource) + wanted > limit:
        raise OverQuota(message("quota.network_exceeded", name=resource))


def _used(project_id: str, resource: str) -> int:
    counted = RESOURCES[resource]
    return counted.model._default_manager.filter(**{counted.owner: project_id}).count()


def _lock_name(project_id: str) -> str:
    return f"network-quota:{project_id}"
