"""Addresses that guests make themselves: they come with the subnet, and go with it. Callers have a transaction."""

from __future__ import annotations

from conductor.network import addresses, ipv6_modes
from conductor.network.models import AddressAllocation, Port, Subnet

# Routers hold the addresses that they were told to.
_ROUTERS = "network:router"


def give(subnet: Subnet) -> None:
    """Ports that are on the network already make themselves an address of a new subnet too."""
    if not ipv6_modes.is_automatic(subnet):
        return
    for port in Port.objects.filter(network=subnet.network_id).exclude(device_owner__startswith="network:"):
        addresses.allocate(subnet, port)


def take_back(subnet: Subnet) -> None:
    """What nobody was given holds no subnet back."""
    if ipv6_modes.is_automatic(subnet):
        AddressAllocation.objects.filter(subnet=subnet).exclude(port__device_owner__startswith=_ROUTERS).delete()
