"""Addresses of subnets: which are free, who holds which. None is ever held twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address, ip_network
from socket import AF_INET, AF_INET6, inet_pton

from django.db import DEFAULT_DB_ALIAS, connections

from conductor.network import ipv6_modes
from conductor.network.errors import InvalidIpForSubnet, IpAddressAlreadyAllocated, IpAddressGenerationFailure
from conductor.network.models import AddressAllocation, Port, Subnet
from conductor.sql import dialect
from conductor.sql.rows import Rows
from conductor.transactions import first_unclaimed

# How often a concurrent allocation may take the address that we saw free before we give up.
ATTEMPTS = 20
ALLOCATIONS = Rows(AddressAllocation, "id")
_HELD = "SELECT ip_address FROM network_addressallocation WHERE subnet_id = %s"


def allocate(subnet: Subnet, port: Port) -> AddressAllocation:
    """Give `port` the lowest free address of the allocation pools; call it inside a write transaction.

    Where guests make their addresses of their MAC addresses, it is that one. Raises IpAddressGenerationFailure when
    the pools are exhausted.
    """
    if ipv6_modes.is_automatic(subnet):
        return allocate_address(subnet, port, ipv6_modes.address_of(subnet, port.mac_address))
    for _ in range(ATTEMPTS):
        free = first_unclaimed(DEFAULT_DB_ALIAS, f"address:{subnet.pk}:", lowest_free(subnet))
        if free is None:
            break
        allocation = _hold(subnet, port, free)
        if allocation is not None:
            return allocation
    raise IpAddressGenerationFailure(f"No more IP addresses available on subnet {subnet.uuid}.")


def allocate_address(subnet: Subnet, port: Port, address: str) -> AddressAllocation:
    """Give `port` this very address, in a pool or not.

    Raises InvalidIpForSubnet for one that is no host's, IpAddressAlreadyAllocated when it is held.
    """
    wanted = usable(subnet, address)
    is_free_to_choose = not ipv6_modes.is_automatic(subnet) or port.device_owner.startswith("network:router")
    if not is_free_to_choose and wanted != ipv6_modes.address_of(subnet, port.mac_address):
        raise InvalidIpForSubnet(f"IP address {address} cannot be chosen: guests of subnet {subnet.uuid} make theirs.")
    allocation = _hold(subnet, port, wanted)
    if allocation is None:
        raise IpAddressAlreadyAllocated(f"IP address {address} already allocated in subnet {subnet.uuid}.")
    return allocation


def allocate_any(subnets: list[Subnet], port: Port) -> list[AddressAllocation]:
    """One address of each IP version that `subnets` have, from the first subnet that has one free.

    Subnets in which guests make their own addresses give one each. Raises IpAddressGenerationFailure when all
    subnets of a version are exhausted.
    """
    fit = _serving(subnets, port)
    given = []
    for version in sorted({subnet.ip_version for subnet in fit}):
        candidates = [subnet for subnet in fit if subnet.ip_version == version]
        automatic = [subnet for subnet in candidates if ipv6_modes.is_automatic(subnet)]
        given += [allocate(subnet, port) for subnet in automatic]
        if chosen := [subnet for subnet in candidates if subnet not in automatic]:
            given.append(_allocate_first(chosen, port))
    return given


def _serving(subnets: list[Subnet], port: Port) -> list[Subnet]:
    """Subnets that are kept for such ports, or those that are for all."""
    kept = [subnet for subnet in subnets if port.device_owner in (subnet.service_types or ())]
    fit = kept or [subnet for subnet in subnets if not subnet.service_types]
    if subnets and not fit:
        raise IpAddressGenerationFailure(
            f"No valid service subnet for the given device owner '{port.device_owner}' on network {port.network.uuid}."
        )
    return fit


def usable(subnet: Subnet, address: str) -> str:
    """The canonical text of an address that a port can hold, the gateway's too; InvalidIpForSubnet for any other."""
    network = ip_network(subnet.cidr)
    try:
        wanted = ip_address(address)
    except ValueError:
        raise InvalidIpForSubnet(f"IP address {address} is not a valid IP address.") from None
    if wanted not in network:
        raise InvalidIpForSubnet(f"IP address {address} is not a valid IP for subnet {subnet.uuid} ({subnet.cidr}).")
    is_edge = network.num_addresses > 2 and wanted in (network.network_address, network.broadcast_address)
    if subnet.ip_version == 4 and is_edge:
        raise InvalidIpForSubnet(f"IP address {address} of subnet {subnet.uuid} is not for hosts.")
    return str(wanted)


def is_held(subnet: Subnet, address: str) -> bool:
    return AddressAllocation.objects.filter(subnet=subnet, ip_address=address).exists()


def lowest_free(subnet: Subnet) -> Iterator[str]:
    """The addresses of the pools that nobody holds, upwards. As numbers: objects of addresses are slow to make."""
    rows = dialect.run(connections[DEFAULT_DB_ALIAS], _HELD, (subnet.pk,))
    held = {_number(address) for (address,) in rows}
    for pool in subnet.allocation_pools:
        start, end = ip_address(pool["start"]), ip_address(pool["end"])
        free = (number for number in range(int(start), int(end) + 1) if number not in held)
        yield from (str(type(start)(number)) for number in free)


@lru_cache(maxsize=65_536)
def _number(address: str) -> int:
    """An address as a number: the same ones are asked for again and again."""
    return int.from_bytes(inet_pton(AF_INET6 if ":" in address else AF_INET, address))


def _allocate_first(subnets: list[Subnet], port: Port) -> AddressAllocation:
    for subnet in subnets:
        try:
            return allocate(subnet, port)
        except IpAddressGenerationFailure:
            continue
    network = port.network
    raise IpAddressGenerationFailure(f"No more IP addresses available on network {network.uuid} ({network.name}).")


def _hold(subnet: Subnet, port: Port, address: str) -> AddressAllocation | None:
    """The constraint decides who gets it; None when somebody else did."""
    allocation = AddressAllocation(subnet=subnet, port=port, ip_address=address)
    is_ours = ALLOCATIONS.insert(connections[DEFAULT_DB_ALIAS], allocation, unless="subnet_id, ip_address")
    return allocation if is_ours else None
