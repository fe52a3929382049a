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
from conductor.network import filters, floating_rows, port_rows, port_security, quotas, security_groups
from conductor.network.errors import MacAddressInUse, PortInUse, PortNotFound, ServicePortInUse
from conductor.network.filters import ListQuery
from conductor.network.models import FloatingIp, Network, Port, Router
from conductor.network.operations import get_network, refuse_for_admins, refuse_other_project
from conductor.network.port_rows import AddressWish
from conductor.network.revisions import touch
from conductor.transactions import write_tx

# What a guest was told when it was plugged; changing it under the guest would make our answer a lie.
FIXED_WHILE_PLUGGED = ("device_id", "device_owner", "mac_address", "fixed_ips", "binding_host", "vnic_type")
FIXED_FOR_SERVICES = ("device_id", "device_owner")
SERVICES = "network:"
# Field → what only an administrator may make of it.
_FOR_ADMINS = {"binding_host": "bind a port to a host", "binding_profile": "give a port a binding profile"}
# What the owner of a network decides for the ports on it.
_FOR_OWNERS = ("mac_address", "is_port_security_enabled", "address_pairs")


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
    values.setdefault("is_port_security_enabled", network.is_port_security_enabled)
    refs = port_security.group_refs(values, wish.security_groups)
    groups = security_groups.resolve(values["project_id"], refs) if refs else []
    with write_tx():
        quotas.require(values["project_id"], "port")
        Network.objects.select_for_update().get(pk=network.pk)
        wishes = None if wish.fixed_ips is None else list(wish.fixed_ips)
        port = port_rows.create(network, groups=groups, wishes=wishes, **values)
        if port.address_pairs:
            pairs = port_security.complete(port.address_pairs, port.mac_address)
            Port.objects.filter(pk=port.pk).update(address_pairs=pairs)
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
        _refuse_in_use(port, changes)
        port_security.check_changes(port, values, group_refs)
        if fixed_ips is not None:
            port_rows.replace_addresses(port, fixed_ips)
            floating_rows.release_lost(port)
        if group_refs is not None:
            port.security_groups.set(security_groups.resolve(port.project_id, group_refs))
        _write(port, values)
    return get_port(context, port_id)


def delete_port(context: RequestContext, port_id: str) -> None:
    """Gives its addresses back. Raises PortInUse while a guest is plugged into it, ServicePortInUse for a router's."""
    with write_tx():
        port = get_port(context, port_id)
        Port.objects.select_for_update().get(pk=port.pk)
        if is_used(port):
            raise PortInUse(f"Unable to complete operation on port {port_id}: server {port.device_id} uses it.")
        if owner := serving(port):
            raise ServicePortInUse(f"Port {port_id} cannot be deleted directly via the port API: {owner} has it.")
        port_rows.delete([port.pk])


def serving(port: Port) -> str:
    """The router or floating IP that the port belongs to, in words; "" for none."""
    wanted = uuid_or_none(port.device_id) if port.device_owner.startswith(SERVICES) else None
    if wanted is None:
        return ""
    if Router.objects.filter(uuid=wanted).exists():
        return f"router {wanted}"
    return f"floating IP {wanted}" if FloatingIp.objects.filter(uuid=wanted).exists() else ""


def is_used(port: Port) -> bool:
    """Whether a guest has it."""
    return bool(port.is_plugged or (port.binding_host and port.device_id))


def _refuse_in_use(port: Port, changes: Mapping[str, Any]) -> None:
    if is_used(port) and changes.keys() & set(FIXED_WHILE_PLUGGED):
        raise PortInUse(f"Unable to complete operation on port {port.uuid}: server {port.device_id} uses it.")
    moved = [name for name in FIXED_FOR_SERVICES if name in changes and changes[name] != getattr(port, name)]
    if moved and (owner := serving(port)):
        raise ServicePortInUse(f"Unable to change the {moved[0]} of port {port.uuid}: {owner} has it.")


def _write(port: Port, values: Mapping[str, Any]) -> None:
    try:
        with transaction.atomic():
            touch(Port.objects.filter(pk=port.pk), **values)
    except IntegrityError:
        raise MacAddressInUse(f"MAC address {values.get('mac_address')} is in use.") from None


def _refuse_foreign(context: RequestContext, network: Network, values: Mapping[str, Any]) -> None:
    """On a network that is only shared with the caller, some things are its owner's business."""
    refuse_for_admins(context, values, _FOR_ADMINS)
    if context.is_admin:
        return
    refuse_other_project(context, values)
    is_own = context.may_see_project(network.project_id)
    is_theirs = any(name in values for name in _FOR_OWNERS) or values.get("device_owner", "").startswith(SERVICES)
    if not is_own and ((network.is_external and not network.is_shared) or is_theirs):
        raise Forbidden(f"Network {network.uuid} belongs to another project.", type="PolicyNotAuthorized")
