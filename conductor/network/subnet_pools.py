"""Subnet pools, and address scopes, in which the prefixes of pools never overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import collapse_addresses, ip_network
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.network import filters, quotas, ranges
from conductor.network.errors import (
    AddressScopeInUse,
    AddressScopeNotFound,
    InvalidInput,
    OverQuota,
    SubnetPoolInUse,
    SubnetPoolNotFound,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import AddressScope, SubnetPool
from conductor.network.operations import refuse_for_admins, refuse_other_project
from conductor.network.revisions import touch

_FOR_ADMINS = {"is_shared": "share it with all projects", "is_default": "make a pool the default one"}
# IP version → shortest prefix, longest, and the default one of a subnet.
LENGTHS = {4: (8, 32, 24), 6: (64, 128, 64)}


def visible_pools(context: RequestContext) -> QuerySet[SubnetPool]:
    rows = SubnetPool.objects.select_related("address_scope")
    return rows if context.is_admin else rows.filter(Q(project_id=context.project_id) | Q(is_shared=True))


def list_pools(context: RequestContext, query: NetworkListQuery) -> list[SubnetPool]:
    return filters.select(visible_pools(context), query, filters.SUBNET_POOLS)


def get_pool(context: RequestContext, pool_id: str) -> SubnetPool:
    """Return a pool. Raises SubnetPoolNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_pools(context), pool_id, SubnetPoolNotFound(f"Subnet pool {pool_id} could not be found.")
    )


def default_pool(ip_version: int) -> SubnetPool | None:
    pools = SubnetPool.objects.filter(is_default=True)
    return next((pool for pool in pools if version(pool) == ip_version), None)


def version(pool: SubnetPool) -> int:
    return ranges.version_of(pool.prefixes[0])


def create_pool(context: RequestContext, wanted: Mapping[str, Any]) -> SubnetPool:
    """Create a pool; `wanted` maps field names to values; `address_scope` is an id. Raises InvalidInput."""
    refuse_for_admins(context, wanted, _FOR_ADMINS)
    refuse_other_project(context, wanted)
    values = {"project_id": context.project_id, **wanted}
    values["prefixes"] = _prefixes(values["prefixes"])
    shortest, longest, default = LENGTHS[ranges.version_of(values["prefixes"][0])]
    values.setdefault("min_prefix_length", shortest)
    values.setdefault("max_prefix_length", longest)
    values.setdefault("default_prefix_length", max(default, values["min_prefix_length"]))
    with write_tx():
        quotas.require(values["project_id"], "subnetpool")
        values["address_scope"] = _scope(context, values.get("address_scope"))
        _check(values, None)
        now = timezone.now()
        pool = SubnetPool.objects.create(**values, created_at=now, updated_at=now)
    return get_pool(context, str(pool.uuid))


def update_pool(context: RequestContext, pool_id: str, changes: Mapping[str, Any]) -> SubnetPool:
    """Update a pool. Prefixes can be added, not removed. Raises InvalidInput."""
    refuse_for_admins(context, changes, _FOR_ADMINS)
    with write_tx():
        pool = _own(context, pool_id)
        values = dict(changes)
        if "prefixes" in values:
            values["prefixes"] = _grown(pool, values["prefixes"])
        if "address_scope" in values:
            values["address_scope"] = _scope(context, values["address_scope"])
        _check(_held(pool) | values, pool)
        touch(SubnetPool.objects.filter(pk=pool.pk), **values)
    return get_pool(context, pool_id)


def delete_pool(context: RequestContext, pool_id: str) -> None:
    """Delete a pool. Raises SubnetPoolInUse while it has subnets."""
    with write_tx():
        pool = _own(context, pool_id)
        if pool.subnets.exists():
            raise SubnetPoolInUse(
                f"Unable to complete operation on subnet pool {pool_id}. There are one or more subnets allocated."
            )
        pool.delete()


def visible_scopes(context: RequestContext) -> QuerySet[AddressScope]:
    rows = AddressScope.objects.all()
    return rows if context.is_admin else rows.filter(Q(project_id=context.project_id) | Q(is_shared=True))


def list_scopes(context: RequestContext, query: NetworkListQuery) -> list[AddressScope]:
    return filters.select(visible_scopes(context), query, filters.ADDRESS_SCOPES)


def get_scope(context: RequestContext, scope_id: str) -> AddressScope:
    return filters.find_one(
        visible_scopes(context), scope_id, AddressScopeNotFound(f"Address scope {scope_id} could not be found.")
    )


def create_scope(context: RequestContext, wanted: Mapping[str, Any]) -> AddressScope:
    refuse_for_admins(context, wanted, _FOR_ADMINS)
    refuse_other_project(context, wanted)
    values = {"project_id": context.project_id, **wanted}
    with write_tx():
        row_limits.require("address_scopes", values["project_id"], type=OverQuota.__name__)
        scope = AddressScope.objects.create(**values, updated_at=timezone.now())
    return get_scope(context, str(scope.uuid))


def update_scope(context: RequestContext, scope_id: str, changes: Mapping[str, Any]) -> AddressScope:
    """Update a scope. A shared scope stays shared: other projects may rely on it."""
    refuse_for_admins(context, changes, _FOR_ADMINS)
    with write_tx():
        scope = _own_scope(context, scope_id)
        if scope.is_shared and changes.get("is_shared") is False:
            raise InvalidInput(f"Unable to update address scope {scope_id} : Shared address scope can't be unshared")
        touch(AddressScope.objects.filter(pk=scope.pk), **changes)
    return get_scope(context, scope_id)


def delete_scope(context: RequestContext, scope_id: str) -> None:
    """Delete a scope. Raises AddressScopeInUse while pools are in it."""
    with write_tx():
        scope = _own_scope(context, scope_id)
        if scope.pools.exists():
            raise AddressScopeInUse(
                f"Unable to complete operation on address scope {scope_id}. There are one or more subnet pools in use "
                "on the address scope"
            )
        scope.delete()


def _own(context: RequestContext, pool_id: str) -> SubnetPool:
    pool = get_pool(context, pool_id)
    if not context.may_see_project(pool.project_id):
        raise Forbidden(f"Subnet pool {pool_id} belongs to another project.", type="PolicyNotAuthorized")
    return SubnetPool.objects.select_for_update().get(pk=pool.pk)


def _own_scope(context: RequestContext, scope_id: str) -> AddressScope:
    scope = get_scope(context, scope_id)
    if not context.may_see_project(scope.project_id):
        raise Forbidden(f"Address scope {scope_id} belongs to another project.", type="PolicyNotAuthorized")
    return scope


def _scope(context: RequestContext, scope_id: str | None) -> AddressScope | None:
    return get_scope(context, scope_id) if scope_id else None


def _prefixes(wanted: Sequence[str]) -> list[str]:
    """Return the prefixes in order, with neighbours joined."""
    parsed: list[Any] = [ip_network(prefix, strict=False) for prefix in wanted]
    if len({prefix.version for prefix in parsed}) != 1:
        raise InvalidInput("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
    return [str(prefix) for prefix in collapse_addresses(parsed)]


def _grown(pool: SubnetPool, wanted: Sequence[str]) -> list[str]:
    grown = _prefixes(wanted)
    lost = [
        prefix for prefix in pool.prefixes if not any(ranges.is_within(ip_network(prefix), wider) for wider in grown)
    ]
    if lost:
        raise InvalidInput(f"Existing prefixes must be a subset of the new prefixes: {', '.join(lost)} is missing.")
    return grown


def _held(pool: SubnetPool) -> dict[str, Any]:
    names = ("prefixes", "min_prefix_length", "max_prefix_length", "default_prefix_length", "is_default", "is_shared")
    return {name: getattr(pool, name) for name in (*names, "address_scope")}


def _check(values: Mapping[str, Any], pool: SubnetPool | None) -> None:
    ip_version = ranges.version_of(values["prefixes"][0])
    low, default, high = (values[f"{word}_prefix_length"] for word in ("min", "default", "max"))
    if not low <= default <= high <= (32 if ip_version == 4 else 128):
        raise InvalidInput(
            f"Illegal prefix lengths: min_prefixlen {low} <= default_prefixlen {default} <= max_prefixlen {high} must "
            f"hold, and IPv{ip_version} ends at {32 if ip_version == 4 else 128}."
        )
    if values.get("is_default"):
        other = default_pool(ip_version)
        if other is not None and (pool is None or other.pk != pool.pk):
            raise InvalidInput(f"A default subnetpool for this IP family has already been set: {other.uuid}.")
    scope = values.get("address_scope")
    if scope is not None:
        _check_scope(scope, values, ip_version, pool)


def _check_scope(scope: AddressScope, values: Mapping[str, Any], ip_version: int, pool: SubnetPool | None) -> None:
    one_at_a_time(DEFAULT_DB_ALIAS, f"address-scope:{scope.uuid}")
    if scope.ip_version != ip_version:
        raise InvalidInput(f"Address scope {scope.uuid} is for IPv{scope.ip_version}, the pool for IPv{ip_version}.")
    if values.get("is_shared") and not scope.is_shared:
        raise InvalidInput(f"A shared subnet pool needs a shared address scope: {scope.uuid} is not shared.")
    others = [other for other in scope.pools.all() if pool is None or other.pk != pool.pk]
    taken = [prefix for other in others for prefix in other.prefixes]
    for prefix in values["prefixes"]:
        if ranges.first_overlap(ip_network(prefix), taken):
            raise InvalidInput(f"Prefix {prefix} overlaps with another pool of address scope {scope.uuid}.")
