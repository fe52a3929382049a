"""Fixed addresses of a guest that is plugged already: one more, or one less."""

from __future__ import annotations

from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.network import floating_rows, port_rows
from conductor.network.errors import IpAddressGenerationFailure
from conductor.network.models import AddressAllocation, Port
from conductor.network.port_rows import AddressWish
from conductor.network.revisions import touch
from conductor.transactions import write_tx


def add(instance_uuid: str, network_id: str) -> str:
    """Give the guest's first port on the network one more address, which is returned. Raises Invalid for none."""
    with write_tx():
        ports = Port.objects.select_related("network").filter(device_id=instance_uuid, is_plugged=True)
        wanted = uuid_or_none(network_id)
        port = ports.filter(network__uuid=wanted).order_by("device_index", "pk").first() if wanted else None
        if port is None:
            raise Invalid(f"Network not found: instance {instance_uuid} has no port on {network_id[:60]}.")
        address = _another(port)
        touch(Port.objects.filter(pk=port.pk))
    return address


def remove(instance_uuid: str, address: str) -> None:
    """Take an address from the guest. Raises Invalid where it has it not."""
    with write_tx():
        rows = AddressAllocation.objects.filter(port__device_id=instance_uuid, port__is_plugged=True)
        row = rows.filter(ip_address=address).select_related("port").first()
        if row is None:
            raise Invalid(f"Fixed IP address {address} could not be found on instance {instance_uuid}.")
        row.delete()
        floating_rows.release_lost(row.port)
        touch(Port.objects.filter(pk=row.port.pk))


def _another(port: Port) -> str:
    """Of the subnets in their order, IPv4 first, from the first that has one left."""
    subnets = sorted(port.network.subnets.all(), key=lambda subnet: (subnet.ip_version, subnet.pk))
    for subnet in subnets:
        try:
            (row,) = port_rows.give_addresses(port, [AddressWish(subnet_id=str(subnet.uuid))])
        except IpAddressGenerationFailure:
            continue
        return row.ip_address
    raise Invalid(f"No more IP addresses available on network {port.network.uuid}.")
