"""Adds and removes fixed addresses of a running guest's ports."""

from __future__ import annotations

from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.network import port_rows
from conductor.network.errors import IpAddressGenerationFailure
from conductor.network.models import AddressAllocation, Port
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch


def add(instance_uuid: str, network_id: str) -> str:
    """Add an address to the guest's first port on the network, and return it.

    Raises Invalid without such a port, and for one with MOST_ADDRESSES.
    """
    with write_tx():
        ports = Port.objects.select_related("network").filter(device_id=instance_uuid, is_plugged=True)
        wanted = uuid_or_none(network_id)
        rows = ports.select_for_update(of=("self",)).order_by("device_index", "pk")
        port = rows.filter(network__uuid=wanted).first() if wanted else None
        if port is None:
            raise Invalid(f"Network not found: instance {instance_uuid} has no port on {network_id[:60]}.")
        if port.addresses.count() >= port_rows.MOST_ADDRESSES:
            raise Invalid(f"Port {port.uuid} has {port_rows.MOST_ADDRESSES} addresses, the most that a port may have.")
        address = _another(port)
        touch(Port.objects.filter(pk=port.pk))
    return address


def remove(instance_uuid: str, address: str) -> None:
    """Remove an address from the guest. Raises Invalid where the guest does not have it."""
    with write_tx():
        rows = AddressAllocation.objects.filter(port__device_id=instance_uuid, port__is_plugged=True)
        row = rows.filter(ip_address=address).select_related("port").first()
        if row is None:
            raise Invalid(f"Fixed IP address {address} could not be found on instance {instance_uuid}.")
        row.delete()
        port_rows.release_lost_floating_ips(row.port)
        touch(Port.objects.filter(pk=row.port.pk))


def _another(port: Port) -> str:
    """Allocate from the first subnet with a free address, IPv4 first."""
    subnets = sorted(port.network.subnets.all(), key=lambda subnet: (subnet.ip_version, subnet.pk))
    for subnet in subnets:
        try:
            (row,) = port_rows.give_addresses(port, [AddressRequest(subnet_id=str(subnet.uuid))])
        except IpAddressGenerationFailure:
            continue
        return row.ip_address
    raise Invalid(f"No more IP addresses available on network {port.network.uuid}.")
