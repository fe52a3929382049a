"""Operations on networks, and their visibility."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.network import filters, provider_networks, qos_choice, quotas, zones
from conductor.network.device_owners import FLOATING_IP, ROUTER_GATEWAY
from conductor.network.errors import InvalidInput, InvalidSharedSetting, NetworkInUse, NetworkNotFound
from conductor.network.filters import NetworkListQuery
from conductor.network.models import FloatingIp, Network, Port, RbacPolicy
from conductor.network.revisions import touch

Create = TypeVar("Create")
Row = TypeVar("Row")
ALL_PROJECTS = "*"
SHARED = "access_as_shared"
EXTERNAL = "access_as_external"
# Field → the action that only an administrator may do with it.
_FOR_ADMINS = {
    "is_shared": "share a network",
    "is_external": "make a network external",
    "is_default": "make a network the default one",
    "provider_type": "choose what a network lies on",
    "physical_network": "choose what a network lies on",
    "segmentation_id": "choose what a network lies on",
}


def shared_with(project_id: str) -> Q:
    """Return the condition for networks that a project may use, besides its own."""
    granted = RbacPolicy.objects.filter(action=SHARED, target_project__in=[project_id, ALL_PROJECTS])
    return Q(is_shared=True) | Q(pk__in=granted.values("network_id"))


def seen_by(project_id: str) -> Q:
    granted = RbacPolicy.objects.filter(target_project__in=[project_id, ALL_PROJECTS])
    return Q(project_id=project_id) | Q(is_shared=True) | Q(is_external=True) | Q(pk__in=granted.values("network_id"))


def is_external_for(network: Network, project_id: str) -> bool:
    """Whether the project may use the network as an external one."""
    granted = network.rbac_policies.filter(action=EXTERNAL, target_project__in=[project_id, ALL_PROJECTS])
    return network.is_external or granted.exists()


def visible_networks(context: RequestContext) -> QuerySet[Network]:
    rows = Network.objects.all()
    return rows if context.is_admin else rows.filter(seen_by(context.project_id))


def list_networks(context: RequestContext, query: NetworkListQuery) -> list[Network]:
    """Return networks with their subnets, in a constant number of queries."""
    table = filters.ADMIN_NETWORKS if context.is_admin else filters.NETWORKS
    return filters.select(_shown(visible_networks(context)), query, table)


def get_network(context: RequestContext, network_id: str) -> Network:
    """Return a network. Raises NetworkNotFound, also for one that the caller may not see."""
    return filters.find_one(
        _shown(visible_networks(context)), network_id, NetworkNotFound(f"Network {network_id} could not be found.")
    )


def own_network(context: RequestContext, network_id: str, *, is_locked: bool = False) -> Network:
    """Return a network that the caller may change; Forbidden for one that is only shared with the caller.

    `is_locked`: inside a write transaction, lock it and its related rows against changes until the end.
    """
    network = get_network(context, network_id)
    if not context.may_see_project(network.project_id):
        raise Forbidden(f"Network {network_id} belongs to another project.", type="PolicyNotAuthorized")
    if is_locked and not Network.objects.select_for_update().filter(pk=network.pk).exists():
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return network


def create_network(context: RequestContext, wanted: Mapping[str, Any]) -> Network:
    """Create a network; `wanted` maps field names to values. Shared and external ones are for administrators."""
    _refuse_sharing(context, wanted)
    values = qos_choice.chosen(context, {"project_id": context.project_id, **wanted})
    zones.require(values.get("availability_zone_hints") or ())
    with write_tx():
        quotas.require(values["project_id"], "network")
        provider_networks.check(values)
        _take_default(values)
        now = timezone.now()
        network = Network.objects.create(**values, created_at=now, updated_at=now)
    return get_network(context, str(network.uuid))


def update_network(context: RequestContext, network_id: str, changes: Mapping[str, Any]) -> Network:
    """Update a network. Raises InvalidInput where other projects use what would no longer be shared."""
    _refuse_sharing(context, changes)
    with write_tx():
        network = own_network(context, network_id, is_locked=True)
        provider_networks.refuse_changes(network, changes)
        _refuse_unsharing(network, changes)
        _take_default({"is_external": network.is_external, **changes})
        touch(Network.objects.filter(pk=network.pk), **qos_choice.chosen(context, changes, network.qos_policy))
    return get_network(context, network_id)


def delete_network(context: RequestContext, network_id: str) -> None:
    """Delete a network with its subnets and unassociated floating IPs. Raises NetworkInUse while it has other ports."""
    with write_tx():
        network = own_network(context, network_id, is_locked=True)
        unused = network.floating_ips.filter(port__isnull=True)
        outer_ports = list(unused.values_list("outer_port_id", flat=True))
        if network.ports.exclude(pk__in=outer_ports).exists():
            raise NetworkInUse(
                f"Unable to complete operation on network {network_id}. There are one or more ports still in use on "
                "the network."
            )
        FloatingIp.objects.filter(outer_port__in=outer_ports).delete()
        Port.objects.filter(pk__in=outer_ports).delete()
        network.delete()


def refuse_other_project(context: RequestContext, wanted: Mapping[str, Any]) -> None:
    if not context.is_admin and wanted.get("project_id", context.project_id) != context.project_id:
        raise Forbidden("Only an administrator may act for another project.", type="PolicyNotAuthorized")


def refuse_for_admins(context: RequestContext, wanted: Mapping[str, Any], for_admins: Mapping[str, str]) -> None:
    """Raise Forbidden when a caller other than an administrator sets one of these fields."""
    if context.is_admin:
        return
    for name, permission in for_admins.items():
        if wanted.get(name):
            raise Forbidden(f"Only an administrator may {permission}.", type="PolicyNotAuthorized")


def create_all(
    context: RequestContext, create: Callable[[RequestContext, Create], Row], requests: Iterable[Create]
) -> list[Row]:
    """Create all of them with `create`, or none."""
    with write_tx():
        return [create(context, requested) for requested in requests]


def _shown(rows: QuerySet[Network]) -> QuerySet[Network]:
    return rows.select_related("qos_policy").prefetch_related("subnets__pool__address_scope", "rbac_policies")


def _refuse_sharing(context: RequestContext, wanted: Mapping[str, Any]) -> None:
    refuse_for_admins(context, wanted, _FOR_ADMINS)
    refuse_other_project(context, wanted)


def _refuse_unsharing(network: Network, changes: Mapping[str, Any]) -> None:
    """Refuse to unshare a network while other projects have ports on it, or use it as an external one."""
    is_narrowed = network.is_shared and changes.get("is_shared") is False
    foreign_ports = network.ports.exclude(project_id__in=["", network.project_id])
    if is_narrowed and foreign_ports.exists():
        raise InvalidSharedSetting(
            f"Unable to reconfigure sharing settings for network {network.uuid}. Multiple tenants are using it."
        )
    is_closed = network.is_external and changes.get("is_external") is False
    if is_closed and network.ports.filter(device_owner__in=(ROUTER_GATEWAY, FLOATING_IP)).exists():
        raise NetworkInUse(f"External network {network.uuid} cannot be updated to be made non-external: it is in use.")


def _take_default(values: Mapping[str, Any]) -> None:
    """Make sure that only one network is the default one, and that it is external."""
    if not values.get("is_default"):
        return
    if not values.get("is_external"):
        raise InvalidInput("Invalid input for is_default. Only an external network can be the default one.")
    touch(Network.objects.filter(is_default=True), is_default=False)
