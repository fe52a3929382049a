"""Listeners of load balancers, and the pools that they pass connections to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.db.transactions import savepoint, write_tx
from conductor.network import balancer_filters, filters, load_balancers, monitor_ports, quotas
from conductor.network.errors import DuplicateListener, InvalidInput, ListenerNotFound, PoolNotFound
from conductor.network.filters import NetworkListQuery
from conductor.network.models import BalancerListener, BalancerPool
from conductor.network.revisions import touch


@dataclass(frozen=True, slots=True)
class ListenerCreate:
    """A listener to create; "" for no pool. `values` maps field names of BalancerListener to values."""

    balancer_id: str
    pool_id: str = ""
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ListenerChange:
    """Changes of a listener; None keeps its pool, "" removes it."""

    pool_id: str | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PoolCreate:
    """A pool to create, of a load balancer or as the pool of a listener. `values` maps field names to values."""

    balancer_id: str = ""
    listener_id: str = ""
    values: Mapping[str, Any] | None = None


def visible_listeners(context: RequestContext) -> QuerySet[BalancerListener]:
    rows = BalancerListener.objects.select_related("balancer", "default_pool").prefetch_related("default_pool__members")
    return rows if context.is_admin else rows.filter(balancer__project_id=context.project_id)


def list_listeners(context: RequestContext, query: NetworkListQuery) -> list[BalancerListener]:
    return filters.select(visible_listeners(context), query, balancer_filters.LISTENERS)


def get_listener(context: RequestContext, listener_id: str) -> BalancerListener:
    """Return a listener. Raises ListenerNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_listeners(context), listener_id, ListenerNotFound(f"Listener {listener_id} not found.")
    )


def create_listener(context: RequestContext, requested: ListenerCreate) -> BalancerListener:
    """Create a listener. Raises DuplicateListener if its port is taken, InvalidInput for a pool that does not fit.

    Also raises NotSupported without OVN, LoadBalancerNotFound, PoolNotFound, OverQuota.
    """
    load_balancers.require_ovn()
    values = dict(requested.values or {})
    with write_tx():
        balancer = load_balancers.get_balancer(context, requested.balancer_id)
        quotas.require(balancer.project_id, "listener")
        with load_balancers.changing(balancer):
            now = timezone.now()
            listener = BalancerListener(**values, balancer=balancer, created_at=now, updated_at=now)
            if requested.pool_id:
                listener.default_pool = _fitting_pool(context, listener, requested.pool_id)
            _save(listener)
    return get_listener(context, str(listener.uuid))


def update_listener(context: RequestContext, listener_id: str, change: ListenerChange) -> BalancerListener:
    """Update a listener. Raises InvalidInput for a pool that does not fit, PoolNotFound."""
    with write_tx():
        listener = get_listener(context, listener_id)
        with load_balancers.changing(listener.balancer):
            values = dict(change.values or {})
            if change.pool_id is not None:
                values["default_pool"] = _fitting_pool(context, listener, change.pool_id) if change.pool_id else None
            touch(BalancerListener.objects.filter(pk=listener.pk), **values)
    return get_listener(context, listener_id)


def delete_listener(context: RequestContext, listener_id: str) -> None:
    with write_tx():
        listener = get_listener(context, listener_id)
        with load_balancers.changing(listener.balancer):
            listener.delete()


def visible_pools(context: RequestContext) -> QuerySet[BalancerPool]:
    rows = BalancerPool.objects.select_related("balancer", "health_monitor").prefetch_related("listeners", "members")
    return rows if context.is_admin else rows.filter(balancer__project_id=context.project_id)


def list_pools(context: RequestContext, query: NetworkListQuery) -> list[BalancerPool]:
    return filters.select(visible_pools(context), query, balancer_filters.POOLS)


def get_pool(context: RequestContext, pool_id: str) -> BalancerPool:
    """Return a pool. Raises PoolNotFound, also for one that the caller may not see."""
    return filters.find_one(visible_pools(context), pool_id, PoolNotFound(f"Pool {pool_id} not found."))


def create_pool(context: RequestContext, requested: PoolCreate) -> BalancerPool:
    """Create a pool. Raises InvalidInput without a load balancer and for a listener that does not fit.

    Also raises NotSupported without OVN, LoadBalancerNotFound, ListenerNotFound, OverQuota.
    """
    load_balancers.require_ovn()
    with write_tx():
        listener = get_listener(context, requested.listener_id) if requested.listener_id else None
        balancer_id = requested.balancer_id or (str(listener.balancer.uuid) if listener else "")
        if not balancer_id:
            raise InvalidInput("Must provide at least one of: loadbalancer_id, listener_id.", field="loadbalancer_id")
        balancer = load_balancers.get_balancer(context, balancer_id)
        quotas.require(balancer.project_id, "pool")
        with load_balancers.changing(balancer):
            now = timezone.now()
            pool = BalancerPool.objects.create(
                **(requested.values or {}), balancer=balancer, created_at=now, updated_at=now
            )
            if listener is not None:
                _give_pool(listener, pool)
    return get_pool(context, str(pool.uuid))


def update_pool(context: RequestContext, pool_id: str, changes: Mapping[str, Any]) -> BalancerPool:
    with write_tx():
        pool = get_pool(context, pool_id)
        with load_balancers.changing(pool.balancer):
            touch(BalancerPool.objects.filter(pk=pool.pk), **changes)
    return get_pool(context, pool_id)


def delete_pool(context: RequestContext, pool_id: str) -> None:
    """Delete a pool with its members and health monitor. Its listeners then have no pool."""
    with write_tx():
        pool = get_pool(context, pool_id)
        with load_balancers.changing(pool.balancer):
            pool.delete()
            monitor_ports.fit(pool.balancer)


def _save(listener: BalancerListener) -> None:
    try:
        with savepoint("default"):
            listener.save()
    except IntegrityError:
        raise DuplicateListener(
            f"Another Listener on this Load Balancer is already using protocol_port {listener.protocol_port} "
            f"with protocol {listener.protocol}",
            field="protocol_port",
        ) from None


def _give_pool(listener: BalancerListener, pool: BalancerPool) -> None:
    """Assign a new pool to a listener. Raises InvalidInput if the listener has a pool or the pool does not fit."""
    if listener.default_pool is not None:
        raise InvalidInput(
            f"Invalid input for listener_id. Listener {listener.uuid} has a pool already.", field="listener_id"
        )
    _refuse_misfit(listener, pool, "listener_id")
    touch(BalancerListener.objects.filter(pk=listener.pk), default_pool=pool)


def _fitting_pool(context: RequestContext, listener: BalancerListener, pool_id: str) -> BalancerPool:
    pool = get_pool(context, pool_id)
    _refuse_misfit(listener, pool, "default_pool_id")
    return pool


def _refuse_misfit(listener: BalancerListener, pool: BalancerPool, field: str) -> None:
    """Raise InvalidInput unless both are of one load balancer and one protocol."""
    if listener.balancer_id != pool.balancer_id:
        raise InvalidInput(f"Invalid input for {field}. Pool and listener are of two load balancers.", field=field)
    if listener.protocol != pool.protocol:
        raise InvalidInput(
            f"Invalid input for {field}. A listener with protocol {listener.protocol} needs a pool with the same one, "
            f"not {pool.protocol}.",
            field=field,
        )
