"""Automatic addresses of guests: allocated and freed with the subnet. Callers have a transaction."""

from __future__ import annotations

from conductor.network import addresses, ipv6_modes
from conductor.network.models import AddressAllocation, Port, Subnet

# Routers have only addresses that were assigned to them.
_ROUTERS = "network:router"


def give(subnet: Subnet) -> None:
    """Allocate an automatic address of a new subnet to each port on its network."""
    if not ipv6_modes.is_automatic(subnet):
        return
    for port in Port.objects.filter(network=subnet.network_id).exclude(device_owner__startswith="network:"):
        addresses.allocate(subnet, port)


def take_back(subnet: Subnet) -> None:
    """Free automatic addresses, so that they do not block the subnet's deletion."""
    if ipv6_modes.is_automatic(subnet):
        AddressAllocation.objects.filter(subnet=subnet).exclude(port__device_owner__startswith=_ROUTERS).delete()
