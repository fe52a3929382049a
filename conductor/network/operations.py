"""Networks, and the pools that subnets are cut from: who sees them, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.network import filters
from conductor.network.errors import NetworkInUse, NetworkNotFound, SubnetPoolNotFound
from conductor.network.filters import ListQuery
from conductor.network.models import Network, SubnetPool
from conductor.transactions import write_tx

Wish = TypeVar("Wish")
Row = TypeVar("Row")


def visible_networks(context: RequestContext) -> QuerySet[Network]:
    rows = Network.objects.all()
    if context.is_admin:
        return rows
    return rows.filter(Q(project_id=context.project_id) | Q(is_shared=True) | Q(is_external=True))


def list_networks(context: RequestContext, query: ListQuery) -> list[Network]:
    """Networks with their subnets, in a constant number of queries."""
    return filters.select(visible_networks(context).prefetch_related("subnets"), query, filters.NETWORKS)


def get_network(context: RequestContext, network_id: str) -> Network:
    """Raises NetworkNotFound, also for one that the caller may not see."""
    wanted = uuid_or_none(network_id)
    network = visible_networks(context).prefetch_related("subnets").filter(uuid=wanted).first() if wanted else None
    if network is None:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return network


def own_network(context: RequestContext, network_id: str, *, is_locked: bool = False) -> Network:
    """A network that the caller may change; Forbidden for one that is only shared with the caller.

    `is_locked`: inside a write transaction, nobody else changes what hangs on it until the end.
    """
    network = get_network(context, network_id)
    if not context.may_see_project(network.project_id):
        raise Forbidden(f"Network {network_id} belongs to another project.", type="PolicyNotAuthorized")
    if is_locked and not Network.objects.select_for_update().filter(pk=network.pk).exists():
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return network


def create_network(context: RequestContext, wanted: Mapping[str, Any]) -> Network:
    """`wanted` maps field names of Network to values. Sharing and external ones are for administrators."""
    _refuse_sharing(context, wanted)
    now = timezone.now()
    values = {"project_id": context.project_id, **wanted}
    with write_tx():
        network = Network.objects.create(**values, created_at=now, updated_at=now)
    return get_network(context, str(network.uuid))


def update_network(context: RequestContext, network_id: str, changes: Mapping[str, Any]) -> Network:
    _refuse_sharing(context, changes)
    with write_tx():
        network = own_network(context, network_id)
        touch(Network.objects.filter(pk=network.pk), **changes)
    return get_network(context, network_id)


def delete_network(context: RequestContext, network_id: str) -> None:
    """Deletes its subnets too. Raises NetworkInUse while it has ports."""
    with write_tx():
        network = own_network(context, network_id, is_locked=True)
        if network.ports.exists():
            raise NetworkInUse(
                f"Unable to complete operation on network {network_id}. There are one or more ports still in use on "
                "the network."
            )
        network.delete()


def visible_pools(context: RequestContext) -> QuerySet[SubnetPool]:
    rows = SubnetPool.objects.all()
    return rows if context.is_admin else rows.filter(Q(project_id=context.project_id) | Q(is_shared=True))


def list_pools(context: RequestContext, query: ListQuery) -> list[SubnetPool]:
    return filters.select(visible_pools(context), query, filters.SUBNET_POOLS)


def get_pool(context: RequestContext, pool_id: str) -> SubnetPool:
    wanted = uuid_or_none(pool_id)
    pool = visible_pools(context).filter(uuid=wanted).first() if wanted else None
    if pool is None:
        raise SubnetPoolNotFound(f"Subnet pool {pool_id} could not be found.")
    return pool


def touch(rows: QuerySet[Any], **changes: Any) -> None:
    """Write `changes` and count the revision."""
    rows.update(**changes, revision_number=F("revision_number") + 1, updated_at=timezone.now())


def _refuse_sharing(context: RequestContext, wanted: Mapping[str, Any]) -> None:
    if context.is_admin:
        return
    for name in ("is_shared", "is_external"):
        if wanted.get(name):
            raise Forbidden(
                "Only an administrator may share a network or make it external.", type="PolicyNotAuthorized"
            )
    refuse_other_project(context, wanted)


def refuse_other_project(context: RequestContext, wanted: Mapping[str, Any]) -> None:
    if not context.is_admin and wanted.get("project_id", context.project_id) != context.project_id:
        raise Forbidden("Only an administrator may act for another project.", type="PolicyNotAuthorized")


def create_all(
    context: RequestContext, create: Callable[[RequestContext, Wish], Row], wishes: Iterable[Wish]
) -> list[Row]:
    """Make all of them with `create`, or none."""
    with write_tx():
        return [create(context, wish) for wish in wishes]
