"""Floating IPs and the servers that they lead to: whoever changes one, the server shows it."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.network import floating_ips, ports
from conductor.network.errors import FloatingIPPortAlreadyAssociated
from conductor.network.floating_ips import FloatingIpChange, FloatingIpWish
from conductor.network.models import FloatingIp, Port
from conductor.services import server_addresses
from conductor.services.instance_queries import mapping_of

IPV4 = 4


def create(context: RequestContext, wish: FloatingIpWish) -> FloatingIp:
    """As `floating_ips.create_floating_ip`."""
    made = floating_ips.create_floating_ip(context, wish)
    _retell(made)
    return made


def update(context: RequestContext, floating_ip_id: str, change: FloatingIpChange) -> FloatingIp:
    """As `floating_ips.update_floating_ip`."""
    before = floating_ips.get_floating_ip(context, floating_ip_id)
    changed = floating_ips.update_floating_ip(context, floating_ip_id, change)
    _retell(before, changed)
    return changed


def delete(context: RequestContext, floating_ip_id: str) -> None:
    """As `floating_ips.delete_floating_ip`."""
    before = floating_ips.get_floating_ip(context, floating_ip_id)
    floating_ips.delete_floating_ip(context, floating_ip_id)
    _retell(before)


def lead_to(context: RequestContext, instance_uuid: str, address: str, fixed_address: str = "") -> None:
    """Have a floating IP lead to the server.

    Raises NotFound, Invalid where the server has no address for it, or only one that another floating IP leads to.
    """
    mapping = mapping_of(context, instance_uuid)
    found = _find(context, address)
    port, inner = _inner(str(mapping.instance_uuid), fixed_address)
    try:
        update(context, str(found.uuid), FloatingIpChange(port_id=str(port.uuid), fixed_ip_address=inner))
    except FloatingIPPortAlreadyAssociated as error:
        raise Invalid(error.message, field="address") from None


def let_go(context: RequestContext, instance_uuid: str, address: str) -> None:
    """Have a floating IP lead nowhere. Raises NotFound, Conflict where it does not lead to the server."""
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
    """The port and its address: the one that was named, or the first of IPv4."""
    for port in ports.plugged(instance_uuid):
        for held in sorted(port.addresses.all(), key=lambda row: row.pk):
            if held.ip_address == wanted or (not wanted and held.subnet.ip_version == IPV4):
                return port, held.ip_address
    if wanted:
        raise Invalid(f"Specified fixed address {wanted} is not assigned to instance {instance_uuid}.")
    raise Invalid(f"Instance {instance_uuid} has no fixed IPv4 address that a floating IP could lead to.")


def _retell(*rows: FloatingIp) -> None:
    for uuid in {row.port.device_id for row in rows if row.port is not None and row.port.device_id}:
        server_addresses.retell(uuid)
