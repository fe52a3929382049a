"""How many networks, ports and the rest a project may have, and how many it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.network.errors import InvalidQuotaValue, OverQuota
from conductor.network.models import (
    FloatingIp,
    Network,
    NetworkQuota,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from conductor.transactions import one_at_a_time, write_tx

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Counted:
    """A resource that can run out: how many a project may have unless told otherwise, and what is counted."""

    limit: int
    model: type[Model]
    owner: str = "project_id"


# Ports of servers count too, but only POST /ports is refused for them: servers are bound by quotas of their own.
RESOURCES: Mapping[str, Counted] = {
    "network": Counted(100, Network),
    "subnet": Counted(100, Subnet),
    "subnetpool": Counted(100, SubnetPool),
    "port": Counted(500, Port),
    "router": Counted(10, Router),
    "floatingip": Counted(50, FloatingIp),
    "security_group": Counted(10, SecurityGroup),
    "security_group_rule": Counted(100, SecurityGroupRule, "group__project_id"),
    "rbac_policy": Counted(10, RbacPolicy),
}


@dataclass(frozen=True, slots=True)
class Usage:
    """`reserved` is always 0: what is made is counted in the transaction that makes it."""

    limit: int
    used: int
    reserved: int = 0


def defaults() -> dict[str, int]:
    return {name: counted.limit for name, counted in RESOURCES.items()}


def limits(project_id: str) -> dict[str, int]:
    """The limit of every resource, by name."""
    return defaults() | dict(NetworkQuota.objects.filter(project_id=project_id).values_list("resource", "limit"))


def usages(project_id: str) -> dict[str, Usage]:
    return {name: Usage(limit, _used(project_id, name)) for name, limit in limits(project_id).items()}


def list_set() -> dict[str, dict[str, int]]:
    """The limits of all projects that have other limits than the default ones, by project."""
    rows = NetworkQuota.objects.order_by("project_id").values_list("project_id", "resource", "limit")
    found: dict[str, dict[str, int]] = {}
    for project_id, resource, limit in rows:
        found.setdefault(project_id, defaults())[resource] = limit
    return found


def set_limits(context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_checked: bool) -> None:
    """All of them, or none. `is_checked` refuses with InvalidQuotaValue what is below what the project has."""
    if not context.is_admin:
        raise Forbidden("Only an administrator may change quotas.", type="AdminRequired")
    with write_tx():
        one_at_a_time(DEFAULT_DB_ALIAS, _gate(project_id))
        below = [name for name, limit in wanted.items() if is_checked and 0 <= limit < _used(project_id, name)]
        if below:
            raise InvalidQuotaValue(f"Change would make usage exceed the limit for the following resources: {below}.")
        for resource, limit in wanted.items():
            NetworkQuota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})


def reset(project_id: str) -> bool:
    """Back to the defaults; whether anything differed from them."""
    with write_tx():
        return bool(NetworkQuota.objects.filter(project_id=project_id).delete()[0])


def require(project_id: str, resource: str, wanted: int = 1) -> None:
    """Inside the write transaction that makes them, and before it holds rows. Raises OverQuota."""
    limit = limits(project_id)[resource]
    if limit == UNLIMITED:
        return
    one_at_a_time(DEFAULT_DB_ALIAS, _gate(project_id))
    if _used(project_id, resource) + wanted > limit:
        raise OverQuota(f"Quota exceeded for resources: ['{resource}'].")


def _used(project_id: str, resource: str) -> int:
    counted = RESOURCES[resource]
    return counted.model._default_manager.filter(**{counted.owner: project_id}).count()


def _gate(project_id: str) -> str:
    return f"network-quota:{project_id}"
