"""Addresses of subnets: which are free, who holds which. None is ever held twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from socket import AF_INET, AF_INET6, inet_pton

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from conductor.network import ipv6_modes
from conductor.network.errors import (
    InvalidIpForSubnet,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    SubnetShareExceeded,
)
from conductor.network.models import AddressAllocation, Port, Subnet
from conductor.sql import dialect
from conductor.sql.rows import Rows
from conductor.transactions import first_unclaimed, one_at_a_time

# How often a concurrent allocation may take the address that we saw free before we give up.
ATTEMPTS = 20
ALLOCATIONS = Rows(AddressAllocation, "id")
# With the projects that have them.
_HELD = (
    "SELECT held.ip_address, port.project_id FROM network_addressallocation held "
    "JOIN network_port port ON port.id = held.port_id WHERE held.subnet_id = %s"
)
LEAST_SHARE = 8  # addresses of a subnet that a project may have, however small the subnet is
CLOSE_TO_SHARE = 64  # so far below it, two transactions of a project need not wait for each other


def allocate(subnet: Subnet, port: Port) -> AddressAllocation:
    """Give `port` the lowest free address of the allocation pools; call it inside a write transaction.

    Where guests make their addresses of their MAC addresses, it is that one. Raises IpAddressGenerationFailure when
    the pools are exhausted, SubnetShareExceeded when the port's project has its share of another project's subnet.
    """
    if ipv6_modes.is_automatic(subnet):
        return allocate_address(subnet, port, ipv6_modes.address_of(subnet, port.mac_address))
    for _ in range(ATTEMPTS):
        held = _held_within_share(subnet, port)
        free = first_unclaimed(DEFAULT_DB_ALIAS, f"address:{subnet.pk}:", lowest_free(subnet, held))
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
    if _is_guest(subnet, port):
        _held_within_share(subnet, port)
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


def _held_within_share(subnet: Subnet, port: Port) -> Sequence[tuple[str, str]]:
    """The addresses that are held, each with its project. Raises SubnetShareExceeded, see `allocate`."""
    connection = connections[DEFAULT_DB_ALIAS]
    rows = dialect.run(connection, _HELD, (subnet.pk,))
    if not _is_guest(subnet, port):
        return rows
    share = _share(subnet)
    if _count_of(rows, port) + CLOSE_TO_SHARE >= share:
        one_at_a_time(DEFAULT_DB_ALIAS, f"share:{subnet.pk}:{port.project_id}")
        rows = dialect.run(connection, _HELD, (subnet.pk,))
    if _count_of(rows, port) >= share:
        raise SubnetShareExceeded(
            f"The project has {_count_of(rows, port)} addresses of the shared subnet {subnet.uuid}, and {share} is its "
            "share. Delete ports there, or use a network of the project's own."
        )
    return rows


def _is_guest(subnet: Subnet, port: Port) -> bool:
    """Whether the subnet is another project's. Ports without a project serve routers and floating IPs."""
    return bool(port.project_id) and port.project_id != subnet.project_id


def _count_of(rows: Sequence[tuple[str, str]], port: Port) -> int:
    return sum(project_id == port.project_id for _, project_id in rows)


def _share(subnet: Subnet) -> int:
    """How many addresses of it one project may have that does not own it."""
    bounds = [(ip_address(pool["start"]), ip_address(pool["end"])) for pool in subnet.allocation_pools]
    size = sum(int(end) - int(start) + 1 for start, end in bounds)
    return max(LEAST_SHARE, size * settings.NOVELLA_SHARED_SUBNET_PERCENT // 100)


def lowest_free(subnet: Subnet, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The addresses of the pools that nobody holds, upwards. As numbers: objects of addresses are slow to make."""
    held = {_number(address) for address, _ in rows}
    for pool in subnet.allocation_pools:
        start, end = ip_address(pool["start"]), ip_address(pool["end"])
        free = (number for number in range(int(start), int(end) + 1) if number not in held)
        yield from (str(type(start)(number)) for number in free)


@lru_cache(maxsize=65_536)
def _number(address: str) -> int:
    """An address as a number: the same ones are asked for again and again."""
    return int.from_bytes(inet_pton(AF_INET6 if ":" in address else AF_INET, address))


def _allocate_first(subnets: list[Subnet], port: Port) -> AddressAllocation:
    refusal: SubnetShareExceeded | None = None
    for subnet in subnets:
        try:
            return allocate(subnet, port)
        except SubnetShareExceeded as error:
            refusal = error
        except IpAddressGenerationFailure:
            continue
    if refusal is not None:
        raise refusal
    network = port.network
    raise IpAddressGenerationFailure(f"No more IP addresses available on network {network.uuid} ({network.name}).")


def _hold(subnet: Subnet, port: Port, address: str) -> AddressAllocation | None:
    """The constraint decides who gets it; None when somebody else did."""
    allocation = AddressAllocation(subnet=subnet, port=port, ip_address=address)
    is_ours = ALLOCATIONS.insert(connections[DEFAULT_DB_ALIAS], allocation, unless="subnet_id, ip_address")
    return allocation if is_ours else None
