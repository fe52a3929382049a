"""Address allocation of subnets. No address is ever allocated twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import merge
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import AF_INET, AF_INET6, inet_pton

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.ledgers import MOST_ENTRIES, compact
from conductor.db.rows import Rows
from conductor.db.transactions import first_unclaimed, one_at_a_time
from conductor.network import ipv6_modes, statements
from conductor.network.errors import (
    InvalidIpForSubnet,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    SubnetShareExceeded,
)
from conductor.network.models import AddressAllocation, Port, ShareEntry, Subnet
from conductor.network.statements import NearbyAddresses

# How often a concurrent allocation may take the free address that was read before this one gives up.
ATTEMPTS = 20
ALLOCATIONS = Rows(AddressAllocation, "id")
# Chosen addresses leave freed ones that are not needed, as many as a subnet has. One allocation in so many deletes
# them.
CHOSEN_PER_CLEANUP = 256
LEAST_SHARE = 8  # minimum share of a project, however small the subnet is
CLOSE_TO_SHARE = 64  # this far below the share, two transactions of a project need not wait for each other


def allocate(subnet: Subnet, port: Port) -> AddressAllocation:
    """Allocate the lowest free address of the pools to `port`. Call it inside a write transaction.

    Where guests derive their addresses from their MAC addresses, it is the derived one. The cost does not grow with the
    subnet: below `Subnet.lowest_gap` only addresses in FreedAddress are free, so that a few from there and the lowest
    freed ones are read.

    Raises:
        IpAddressGenerationFailure: the pools are exhausted.
        SubnetShareExceeded: the port's project has its share of another project's subnet.
    """
    if ipv6_modes.is_automatic(subnet):
        return allocate_address(subnet, port, ipv6_modes.address_of(subnet, port.mac_address))
    for _ in range(ATTEMPTS):
        near = _near_within_share(subnet, port)
        free = first_unclaimed(DEFAULT_DB_ALIAS, f"address:{subnet.pk}:", lowest_free(subnet, near))
        if free is None:
            break
        allocation = _hold(subnet, port, free)
        if allocation is not None:
            return allocation
    raise IpAddressGenerationFailure(f"No more IP addresses available on subnet {subnet.uuid}.")


def allocate_address(subnet: Subnet, port: Port, address: str) -> AddressAllocation:
    """Allocate exactly this address to `port`, in a pool or not.

    Raises InvalidIpForSubnet for one that hosts cannot have, IpAddressAlreadyAllocated when it is taken.
    """
    wanted = usable(subnet, address)
    is_free_to_choose = not ipv6_modes.is_automatic(subnet) or port.device_owner.startswith("network:router")
    if not is_free_to_choose and wanted != ipv6_modes.address_of(subnet, port.mac_address):
        raise InvalidIpForSubnet(f"IP address {address} cannot be chosen: guests of subnet {subnet.uuid} make theirs.")
    if _is_guest(subnet, port):
        _near_within_share(subnet, port)
    allocation = _hold(subnet, port, wanted)
    if allocation is None:
        raise IpAddressAlreadyAllocated(f"IP address {address} already allocated in subnet {subnet.uuid}.")
    if allocation.number and allocation.pk % CHOSEN_PER_CLEANUP == 0:
        pools = [(_digits(start), _digits(end)) for start, end in _bounds(subnet)]
        statements.forget_freed(connections[DEFAULT_DB_ALIAS], subnet.pk, subnet.gap_epoch, pools)
    return allocation


def allocate_any(subnets: list[Subnet], port: Port) -> list[AddressAllocation]:
    """Allocate one address of each IP version that `subnets` have, from the first subnet with a free one.

    Subnets with automatic addresses give one each. Raises IpAddressGenerationFailure when all
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
    """Return the subnets reserved for such ports, or else those for all."""
    kept = [subnet for subnet in subnets if port.device_owner in (subnet.service_types or ())]
    fit = kept or [subnet for subnet in subnets if not subnet.service_types]
    if subnets and not fit:
        raise IpAddressGenerationFailure(
            f"No valid service subnet for the given device owner '{port.device_owner}' on network {port.network.uuid}."
        )
    return fit


def usable(subnet: Subnet, address: str) -> str:
    """Return the canonical text of an address that a port can have, even the gateway's. Raises InvalidIpForSubnet."""
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


def _near_within_share(subnet: Subnet, port: Port) -> NearbyAddresses:
    """Return the addresses near the lowest free one. Raises SubnetShareExceeded, see `allocate`."""
    connection = connections[DEFAULT_DB_ALIAS]
    starts = (subnet.lowest_gap, _digits(_bounds(subnet)[0][0]) if subnet.allocation_pools else "")
    if not _is_guest(subnet, port):
        return statements.near_addresses(connection, subnet.pk, *starts, None)
    share = _share(subnet)
    near = statements.near_addresses(connection, subnet.pk, *starts, port.project_id)
    if near.of_project + CLOSE_TO_SHARE >= share:
        one_at_a_time(DEFAULT_DB_ALIAS, f"share:{subnet.pk}:{port.project_id}")
        near = statements.near_addresses(connection, subnet.pk, *starts, port.project_id)
    if near.of_project >= share:
        raise SubnetShareExceeded(
            f"The project has {near.of_project} addresses of the shared subnet {subnet.uuid}, and {share} is its "
            "share. Delete ports there, or use a network of the project's own."
        )
    if near.entries > MOST_ENTRIES:
        entries = ShareEntry.objects.filter(subnet=subnet, project_id=port.project_id)
        compact(entries, ("subnet_id", "project_id"), ("addresses",))
    return near


def _is_guest(subnet: Subnet, port: Port) -> bool:
    """Whether the subnet is another project's. Ports without a project serve routers and floating IPs."""
    return bool(port.project_id) and port.project_id != subnet.project_id


def _share(subnet: Subnet) -> int:
    """Return how many of its addresses a project other than the owner may have."""
    size = sum(end - start + 1 for start, end in _bounds(subnet))
    return max(LEAST_SHARE, size * settings.NOVELLA_SHARED_SUBNET_PERCENT // 100)


def lowest_free(subnet: Subnet, near: NearbyAddresses) -> Iterator[str]:
    """Yield the free addresses of the pools, upwards: freed ones, and gaps between the allocated ones."""
    make = IPv6Address if subnet.ip_version == 6 else IPv4Address
    previous = -1
    for number in merge(_freed(subnet, near.freed), _gaps(subnet, near.held)):
        if number != previous:  # a freed one may be in a gap
            yield str(make(number))
        previous = number


def _freed(subnet: Subnet, window: list[str]) -> Iterator[int]:
    """Yield the freed numbers that are in a pool."""
    freed = _Numbers(subnet, window, statements.freed_addresses)
    for start, end in _bounds(subnet):
        number = freed.first_from(start)
        while number is not None and number <= end:
            yield number
            number = freed.first_from(number + 1)


def _gaps(subnet: Subnet, window: list[str]) -> Iterator[int]:
    """Yield the numbers of the pools from `lowest_gap` on that are not allocated, and raise it to the first of them."""
    held = _Numbers(subnet, window, statements.held_addresses)
    began_at = int(subnet.lowest_gap or "0", 16)
    is_first = True
    number = 0
    for start, end in _bounds(subnet):
        number = max(start, began_at)
        while number <= end:
            taken = held.first_from(number)
            if taken == number:
                number += 1
                continue
            if is_first:
                _raise_lowest_gap(subnet, window, number)
            is_first = False
            until = end + 1 if taken is None else min(taken, end + 1)
            yield from range(number, until)
            number = until
    if is_first:
        _raise_lowest_gap(subnet, window, number)


def _raise_lowest_gap(subnet: Subnet, window: list[str], number: int) -> None:
    """Store the lowest gap when more than the window was read to find it."""
    if len(window) == statements.WINDOW and number > int(window[-1], 16):
        connection = connections[DEFAULT_DB_ALIAS]
        statements.raise_lowest_gap(connection, subnet.pk, subnet.gap_epoch, _digits(number))


class _Numbers:
    """Numbers of a subnet's allocated or freed addresses, upwards. Those after the window are read when needed."""

    def __init__(
        self, subnet: Subnet, window: list[str], read: Callable[[BaseDatabaseWrapper, int, str], list[str]]
    ) -> None:
        self._subnet = subnet
        self._read = read
        self._numbers = deque(int(number, 16) for number in window)
        self._has_more = len(window) == statements.WINDOW

    def first_from(self, start: int) -> int | None:
        """Return the lowest number from `start` on, which is never below that of an earlier call."""
        while self._numbers and self._numbers[0] < start:
            self._numbers.popleft()
        if not self._numbers and self._has_more:
            following = self._read(connections[DEFAULT_DB_ALIAS], self._subnet.pk, _digits(start))
            self._numbers.extend(int(number, 16) for number in following)
            self._has_more = len(following) == statements.MORE
        return self._numbers[0] if self._numbers else None


def _bounds(subnet: Subnet) -> list[tuple[int, int]]:
    """Return the first and the last number of each pool, in order of addresses."""
    return [(_number(pool["start"]), _number(pool["end"])) for pool in subnet.allocation_pools]


def _number(address: str) -> int:
    return int.from_bytes(inet_pton(AF_INET6 if ":" in address else AF_INET, address))


def _digits(number: int) -> str:
    """Return a number as in `AddressAllocation.number`. Texts of the same length sort as numbers do."""
    return f"{number:032x}"


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
    """Insert the allocation. None when a concurrent one has won, as a constraint decides."""
    number = "" if ipv6_modes.is_automatic(subnet) else _digits(_number(address))
    guest = port.project_id if _is_guest(subnet, port) else ""
    allocation = AddressAllocation(subnet=subnet, port=port, ip_address=address, number=number, guest=guest)
    is_ours = ALLOCATIONS.insert(connections[DEFAULT_DB_ALIAS], allocation, unless="subnet_id, ip_address")
    return allocation if is_ours else None
