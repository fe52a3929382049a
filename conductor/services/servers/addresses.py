"""Addresses of servers: fixed and floating addresses are added, removed and refreshed, and recorded as actions."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import VmState
from conductor.db.transactions import database_now, write_tx
from conductor.network import floating_ips, guest_addresses, ports
from conductor.network.errors import FloatingIPPortAlreadyAssociated
from conductor.network.floating_ips import FloatingIpChange, FloatingIpCreate
from conductor.network.models import FloatingIp, Port
from conductor.services.servers.actions import cell_of
from conductor.services.servers.queries import mapping_of, missing
from conductor.services.workflows import immediate_runs
from conductor.services.workflows.immediate_runs import InstantAction

log = logging.getLogger(__name__)

ADD = InstantAction(action="addFixedIp", event="compute_add_fixed_ip_to_instance", title="Add an IP address")
REMOVE = InstantAction(
    action="removeFixedIp", event="compute_remove_fixed_ip_from_instance", title="Remove an IP address"
)
REFRESH = InstantAction(action="injectNetworkInfo", event="compute_inject_network_info", title="Refresh addresses")
STATES = (VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED)


def add_fixed(context: RequestContext, instance_uuid: str, network_id: str) -> str:
    """Add an address on a network that the server has a port on; returns the uuid of the record.

    Raises NotFound, Invalid where there is no such port or no address left, Conflict for a server that is locked, has a
    task under way, or is in another state.
    """
    _guard(context, instance_uuid, ADD)
    guest_addresses.add(str(mapping_of(context, instance_uuid).instance_uuid), network_id)
    return _record(context, instance_uuid, ADD)


def remove_fixed(context: RequestContext, instance_uuid: str, address: str) -> str:
    """Remove an address from the server; returns the uuid of the record. Raises what `add_fixed` raises."""
    _guard(context, instance_uuid, REMOVE)
    guest_addresses.remove(str(mapping_of(context, instance_uuid).instance_uuid), address)
    return _record(context, instance_uuid, REMOVE)


def refresh(context: RequestContext, instance_uuid: str) -> str:
    """Update the server's addresses from its ports; returns the uuid of the record. Raises NotFound, Conflict."""
    return _record(context, instance_uuid, REFRESH)


def refresh_network_info(instance_uuid: str) -> None:
    """Update the server's addresses after a change of its ports. While its cell is down, this is left to the next
    change.
    """
    wanted = uuid_or_none(instance_uuid)
    mapping = InstanceMapping.objects.select_related("cell").filter(instance_uuid=wanted).first() if wanted else None
    if mapping is None or mapping.cell is None or mapping.is_deleted:
        return
    alias = mapping.cell.name
    try:
        with write_tx(alias):
            rows = Instance.objects.using(alias).alive().filter(uuid=mapping.instance_uuid)
            if rows.update(addresses=ports.network_info(str(mapping.instance_uuid)), updated_at=database_now()):
                topic = events.about_instance(mapping.instance_uuid, mapping.project_id)
                events.append(alias, topic, "instance.updated", {"changed": ["addresses"]})
    except DatabaseError:
        log.warning("addresses not sent: instance=%s cell=%s", mapping.instance_uuid, alias)


def _guard(context: RequestContext, instance_uuid: str, action: InstantAction) -> None:
    alias = cell_of(context, instance_uuid)
    instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if instance is None:
        raise missing(instance_uuid)
    if instance.is_locked and not context.is_admin:
        raise Conflict(f"Instance {instance.uuid} is locked")
    for what, value, is_allowed in (
        ("vm_state", instance.vm_state, instance.vm_state in STATES),
        ("task_state", instance.task_state, instance.task_state is None),
    ):
        if not is_allowed:
            raise Conflict(f"Cannot '{action.action}' instance {instance.uuid} while it is in {what} {value}")


def _record(context: RequestContext, instance_uuid: str, action: InstantAction) -> str:
    """Store the addresses of the ports and record the action. A repeated call completes what a dead process left."""
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive().filter(uuid=instance_uuid)
        instance = rows.select_for_update().first()
        if instance is None:
            raise missing(instance_uuid)
        rows.update(addresses=ports.network_info(str(instance.uuid)), updated_at=database_now())
        run = immediate_runs.record(alias, context, instance, action)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)


IPV4 = 4


def create(context: RequestContext, requested: FloatingIpCreate) -> FloatingIp:
    """Create a floating IP as `floating_ips.create_floating_ip` does."""
    made = floating_ips.create_floating_ip(context, requested)
    _retell(made)
    return made


def update(context: RequestContext, floating_ip_id: str, change: FloatingIpChange) -> FloatingIp:
    """Update a floating IP as `floating_ips.update_floating_ip` does."""
    before = floating_ips.get_floating_ip(context, floating_ip_id)
    changed = floating_ips.update_floating_ip(context, floating_ip_id, change)
    _retell(before, changed)
    return changed


def delete(context: RequestContext, floating_ip_id: str) -> None:
    """Delete a floating IP as `floating_ips.delete_floating_ip` does."""
    before = floating_ips.get_floating_ip(context, floating_ip_id)
    floating_ips.delete_floating_ip(context, floating_ip_id)
    _retell(before)


def lead_to(context: RequestContext, instance_uuid: str, address: str, fixed_address: str = "") -> None:
    """Associate a floating IP with the server.

    Raises NotFound, Invalid where the server has no fixed address for it, or only one that has a floating IP.
    """
    mapping = mapping_of(context, instance_uuid)
    found = _find(context, address)
    port, inner = _inner(str(mapping.instance_uuid), fixed_address)
    try:
        update(context, str(found.uuid), FloatingIpChange(port_id=str(port.uuid), fixed_ip_address=inner))
    except FloatingIPPortAlreadyAssociated as error:
        raise Invalid(error.message, field="address") from None


def let_go(context: RequestContext, instance_uuid: str, address: str) -> None:
    """Disassociate a floating IP. Raises NotFound, Conflict where it is not the server's."""
    mapping = mapping_of(context, instance_uuid)
    found = _find(context, address)
    if found.port is None or found.port.device_id != str(mapping.instance_uuid):
        raise Conflict(f"Floating IP {address} is not associated with instance {mapping.instance_uuid}.")
    update(context, str(found.uuid), FloatingIpChange(port_id=""))


def _find(context: RequestContext, address: str) -> FloatingIp:
    found = floating_ips.visible_floating_ips(context).filter(address=address).first()
    if found is None:
        raise NotFound(f"floating IP not found: {address}")
    return found


def _inner(instance_uuid: str, wanted: str) -> tuple[Port, str]:
    """Return the port and its address: the named address, or the first one of IPv4."""
    for port in ports.plugged(instance_uuid):
        for held in sorted(port.addresses.all(), key=lambda row: row.pk):
            if held.ip_address == wanted or (not wanted and held.subnet.ip_version == IPV4):
                return port, held.ip_address
    if wanted:
        raise Invalid(f"Specified fixed address {wanted} is not assigned to instance {instance_uuid}.")
    raise Invalid(f"Instance {instance_uuid} has no fixed IPv4 address that a floating IP could lead to.")


def _retell(*rows: FloatingIp) -> None:
    for uuid in {row.port.device_id for row in rows if row.port is not None and row.port.device_id}:
        refresh_network_info(uuid)
