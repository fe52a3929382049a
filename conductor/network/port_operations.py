"""Ports as people make, change and delete them. What plugs them into guests: ports.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.network import filters, port_rows, security_groups
from conductor.network.errors import MacAddressInUse, PortInUse, PortNotFound
from conductor.network.filters import ListQuery
from conductor.network.models import Network, Port
from conductor.network.operations import get_network, refuse_other_project, touch
from conductor.network.port_rows import AddressWish
from conductor.transactions import write_tx

# What a guest was told when it was plugged; changing it under the guest would make our answer a lie.
FIXED_WHILE_PLUGGED = ("device_id", "device_owner", "mac_address", "fixed_ips", "binding_host")


@dataclass(frozen=True, slots=True)
class PortWish:
    """`fixed_ips` None: an address of each IP version; `security_groups` None: the project's default one.

    `values` maps field names of Port to values.
    """

    network_id: str
    fixed_ips: Sequence[AddressWish] | None = None
    security_groups: Sequence[str] | None = None
    values: Mapping[str, Any] | None = None


def visible_ports(context: RequestContext) -> QuerySet[Port]:
    rows = Port.objects.select_related("network").prefetch_related("addresses__subnet", "security_groups")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_ports(context: RequestContext, query: ListQuery) -> list[Port]:
    """Ports with addresses and groups, in a constant number of queries."""
    table = filters.ADMIN_PORTS if context.is_admin else filters.PORTS
    return filters.select(visible_ports(context), query, table)


def get_port(context: RequestContext, port_id: str) -> Port:
    wanted = uuid_or_none(port_id)
    port = visible_ports(context).filter(uuid=wanted).first() if wanted else None
    if port is None:
        raise PortNotFound(f"Port {port_id} could not be found.")
    return port


def create_port(context: RequestContext, wish: PortWish) -> Port:
    """Raises what port_rows.create raises, and Forbidden for what only administrators may set."""
    network = get_network(context, wish.network_id)
    values = {"project_id": context.project_id, **(wish.values or {})}
    _refuse_foreign(context, network, values)
    groups = security_groups.resolve(values["project_id"], _refs(wish.security_groups))
    with write_tx():
        Network.objects.select_for_update().get(pk=network.pk)
        wishes = None if wish.fixed_ips is None else list(wish.fixed_ips)
        port = port_rows.create(network, groups=groups, wishes=wishes, **values)
    return get_port(context, str(port.uuid))


def update_port(context: RequestContext, port_id: str, changes: Mapping[str, Any]) -> Port:
    """`changes` maps field names of Port, `fixed_ips` and `security_groups` to values.

    Raises PortInUse for what a plugged port must keep.
    """
    with write_tx():
        port = get_port(context, port_id)
        Port.objects.select_for_update().get(pk=port.pk)
        values = dict(changes)
        fixed_ips = values.pop("fixed_ips", None)
        group_refs = values.pop("security_groups", None)
        _refuse_foreign(context, port.network, values)
        if is_used(port) and changes.keys() & set(FIXED_WHILE_PLUGGED):
            raise PortInUse(f"Unable to complete operation on port {port_id}: server {port.device_id} uses it.")
        if fixed_ips is not None:
            port_rows.replace_addresses(port, fixed_ips)
        if group_refs is not None:
            port.security_groups.set(security_groups.resolve(port.project_id, group_refs))
        _write(port, values)
    return get_port(context, port_id)


def delete_port(context: RequestContext, port_id: str) -> None:
    """Gives its addresses back. Raises PortInUse while a guest is plugged into it."""
    with write_tx():
        port = get_port(context, port_id)
        Port.objects.select_for_update().get(pk=port.pk)
        if is_used(port):
            raise PortInUse(f"Unable to complete operation on port {port_id}: server {port.device_id} uses it.")
        port.delete()


def is_used(port: Port) -> bool:
    """Whether a guest has it."""
    return bool(port.is_plugged or port.binding_host)


def _refs(wanted: Sequence[str] | None) -> Sequence[str]:
    return [security_groups.DEFAULT_NAME] if wanted is None else wanted


def _write(port: Port, values: Mapping[str, Any]) -> None:
    try:
        with transaction.atomic():
            touch(Port.objects.filter(pk=port.pk), **values)
    except IntegrityError:
        raise MacAddressInUse(f"MAC address {values.get('mac_address')} is in use.") from None


def _refuse_foreign(context: RequestContext, network: Network, values: Mapping[str, Any]) -> None:
    """On a network that is only shared with the caller, MAC addresses are its owner's business."""
    if context.is_admin:
        return
    refuse_other_project(context, values)
    if values.get("binding_host"):
        raise Forbidden("Only an administrator may bind a port to a host.", type="PolicyNotAuthorized")
    is_own = context.may_see_project(network.project_id)
    if not is_own and (network.is_external or "mac_address" in values):
        raise Forbidden(f"Network {network.uuid} belongs to another project.", type="PolicyNotAuthorized")
