"""Operations of users on ports. For plugging them into guests see ports.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import savepoint, write_tx
from conductor.network import filters, port_rows, port_security, qos_choice, quotas, security_groups
from conductor.network.device_owners import BALANCER_MONITOR, BALANCER_VIP
from conductor.network.errors import (
    DeviceIDNotOwnedByTenant,
    MacAddressInUse,
    PortInUse,
    PortNotFound,
    ServicePortInUse,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import FloatingIp, LoadBalancer, MonitorPort, Network, Port, Router
from conductor.network.operations import get_network, refuse_for_admins, refuse_other_project
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch

# A guest got these values when it was plugged; a change under the guest would make them wrong.
FIXED_WHILE_PLUGGED = ("device_id", "device_owner", "mac_address", "fixed_ips", "binding_host", "vnic_type")
FIXED_FOR_SERVICES = ("device_id", "device_owner")
SERVICES = "network:"
# Field → the action that only an administrator may do with it.
_FOR_ADMINS = {"binding_host": "bind a port to a host", "binding_profile": "give a port a binding profile"}
# Fields that only the owner of a network may set on its ports.
_FOR_OWNERS = ("mac_address", "is_port_security_enabled", "address_pairs")


@dataclass(frozen=True, slots=True)
class PortCreate:
    """A port to create. `values` maps field names of Port to values.

    `fixed_ips` None: an address of each IP version; `security_groups` None: the project's default one.
    """

    network_id: str
    fixed_ips: Sequence[AddressRequest] | None = None
    security_groups: Sequence[str] | None = None
    values: Mapping[str, Any] | None = None


def visible_ports(context: RequestContext) -> QuerySet[Port]:
    rows = Port.objects.select_related("network__qos_policy", "qos_policy").prefetch_related(
        "addresses__subnet", "security_groups"
    )
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_ports(context: RequestContext, query: NetworkListQuery) -> list[Port]:
    """Return ports with addresses and groups, in a constant number of queries."""
    table = filters.ADMIN_PORTS if context.is_admin else filters.PORTS
    return filters.select(visible_ports(context), query, table)


def get_port(context: RequestContext, port_id: str) -> Port:
    return filters.find_one(visible_ports(context), port_id, PortNotFound(f"Port {port_id} could not be found."))


def create_port(context: RequestContext, requested: PortCreate) -> Port:
    """Create a port. Raises as port_rows.create, Forbidden for administrators' fields, DeviceIDNotOwnedByTenant."""
    network = get_network(context, requested.network_id)
    values = qos_choice.chosen(context, {"project_id": context.project_id, **(requested.values or {})})
    _refuse_foreign(context, network, values)
    _refuse_foreign_device(context, values)
    values.setdefault("is_port_security_enabled", network.is_port_security_enabled)
    refs = port_security.group_refs(values, requested.security_groups)
    groups = security_groups.resolve(values["project_id"], refs) if refs else []
    with write_tx():
        quotas.require(values["project_id"], "port")
        Network.objects.select_for_update().get(pk=network.pk)
        requests = None if requested.fixed_ips is None else list(requested.fixed_ips)
        port = port_rows.create(network, groups=groups, requests=requests, **values)
        if port.address_pairs:
            pairs = port_security.complete(port.address_pairs, port.mac_address)
            Port.objects.filter(pk=port.pk).update(address_pairs=pairs)
    return get_port(context, str(port.uuid))


def update_port(context: RequestContext, port_id: str, changes: Mapping[str, Any]) -> Port:
    """Update a port; `changes` maps field names of Port, `fixed_ips` and `security_groups` to values.

    Raises PortInUse for fields that a plugged port must keep, DeviceIDNotOwnedByTenant.
    """
    with write_tx():
        port = get_port(context, port_id)
        Port.objects.select_for_update().get(pk=port.pk)
        values = dict(changes)
        fixed_ips = values.pop("fixed_ips", None)
        group_refs = values.pop("security_groups", None)
        values = qos_choice.chosen(context, values, port.qos_policy)
        _refuse_foreign(context, port.network, values)
        _refuse_in_use(context, port, changes)
        if changes.keys() & set(FIXED_FOR_SERVICES):
            _refuse_foreign_device(context, {name: getattr(port, name) for name in FIXED_FOR_SERVICES} | values)
        port_security.check_changes(port, values, group_refs)
        if fixed_ips is not None:
            port_rows.replace_addresses(port, fixed_ips)
            port_rows.release_lost_floating_ips(port)
        if group_refs is not None:
            port.security_groups.set(security_groups.resolve(port.project_id, group_refs))
        _write(port, values)
    return get_port(context, port_id)


def delete_port(context: RequestContext, port_id: str) -> None:
    """Delete a port and free its addresses. Raises PortInUse while it is plugged, ServicePortInUse for a router's."""
    with write_tx():
        port = get_port(context, port_id)
        Port.objects.select_for_update().get(pk=port.pk)
        if is_used(port):
            raise PortInUse(f"Unable to complete operation on port {port_id}: server {port.device_id} uses it.")
        if owner := serving(context, port):
            raise ServicePortInUse(f"Port {port_id} cannot be deleted directly via the port API: {owner} has it.")
        port_rows.delete([port.pk])


def serving(context: RequestContext, port: Port) -> str:
    """Return the router, floating IP or load balancer of the port, in words; "" for none.

    Only its own project sees which one.
    """
    balancer = balancer_of(port)
    found = ("load balancer", balancer) if balancer else _device(port.device_owner, port.device_id)
    if found is None:
        return ""
    noun, device = found
    return f"{noun} {device.uuid}" if context.may_see_project(device.project_id) else f"a {noun} of another project"


def balancer_of(port: Port) -> LoadBalancer | None:
    """Return the load balancer that has the port, for its address or for its health monitors."""
    if port.device_owner not in (BALANCER_VIP, BALANCER_MONITOR):
        return None
    monitoring = MonitorPort.objects.filter(port=port).values("balancer")
    return LoadBalancer.objects.filter(Q(vip_port=port) | Q(pk__in=monitoring)).first()


def _device(device_owner: str, device_id: str) -> tuple[str, Router | FloatingIp] | None:
    """Return the router or floating IP, of any project, that a port with these values would belong to."""
    wanted = uuid_or_none(device_id) if device_owner.startswith(SERVICES) else None
    if wanted is None:
        return None
    router = Router.objects.filter(uuid=wanted).first()
    floating_ip = FloatingIp.objects.filter(uuid=wanted).first()
    return ("router", router) if router else ("floating IP", floating_ip) if floating_ip else None


def is_used(port: Port) -> bool:
    """Whether a guest has the port."""
    return bool(port.is_plugged or (port.binding_host and port.device_id))


def _refuse_in_use(context: RequestContext, port: Port, changes: Mapping[str, Any]) -> None:
    if is_used(port) and changes.keys() & set(FIXED_WHILE_PLUGGED):
        raise PortInUse(f"Unable to complete operation on port {port.uuid}: server {port.device_id} uses it.")
    moved = [name for name in FIXED_FOR_SERVICES if name in changes and changes[name] != getattr(port, name)]
    if balancer_of(port):  # OVN has its addresses
        moved += [name for name in ("mac_address", "fixed_ips") if name in changes]
    if moved and (owner := serving(context, port)):
        raise ServicePortInUse(f"Unable to change the {moved[0]} of port {port.uuid}: {owner} has it.")


def _write(port: Port, values: Mapping[str, Any]) -> None:
    try:
        with savepoint("default"):
            touch(Port.objects.filter(pk=port.pk), **values)
    except IntegrityError:
        raise MacAddressInUse(f"MAC address {values.get('mac_address')} is in use.") from None


def _refuse_foreign_device(context: RequestContext, values: Mapping[str, Any]) -> None:
    """Refuse a port of another project's router: a port that names a router as its device is its interface."""
    found = _device(values.get("device_owner", ""), values.get("device_id", ""))
    if found is not None and not context.may_see_project(found[1].project_id):
        raise DeviceIDNotOwnedByTenant(
            f"The following device_id {values['device_id']} is not owned by your tenant "
            "or matches another tenants router."
        )


def _refuse_foreign(context: RequestContext, network: Network, values: Mapping[str, Any]) -> None:
    """Refuse fields that only the owner may set, on a network that is only shared with the caller."""
    refuse_for_admins(context, values, _FOR_ADMINS)
    if context.is_admin:
        return
    refuse_other_project(context, values)
    is_own = context.may_see_project(network.project_id)
    is_theirs = any(name in values for name in _FOR_OWNERS) or values.get("device_owner", "").startswith(SERVICES)
    if not is_own and ((network.is_external and not network.is_shared) or is_theirs):
        raise Forbidden(f"Network {network.uuid} belongs to another project.", type="PolicyNotAuthorized")
