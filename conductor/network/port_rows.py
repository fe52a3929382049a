"""Rows of ports: creates one with a MAC address and addresses of its own. Callers have a transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.identifiers import uuid_or_none
from conductor.db.dialect import Insert
from conductor.db.rows import Rows
from conductor.network import addresses, statements
from conductor.network.errors import InvalidInput, InvalidIpForSubnet, MacAddressInUse, SubnetNotFound
from conductor.network.models import AddressAllocation, FloatingIp, Network, Port, SecurityGroup, Subnet
from conductor.network.revisions import touch

MAC_PREFIX = "fa:16:3e"
ATTEMPTS = 20
MOST_ADDRESSES = 5  # that a request may give to one port
PORTS = Rows(Port, "id")
SUBNETS = Rows(Subnet, "network_id")
_MEMBERSHIPS = Insert(Port.security_groups.through, "port_id", "securitygroup_id")


@dataclass(frozen=True, slots=True)
class AddressRequest:
    """An address, a subnet to take the lowest free one from, or an address of a subnet."""

    subnet_id: str | None = None
    ip_address: str | None = None


def new_mac() -> str:
    return ":".join([MAC_PREFIX, *(f"{byte:02x}" for byte in secrets.token_bytes(3))])


def create(
    network: Network, *, groups: Iterable[SecurityGroup], requests: list[AddressRequest] | None = None, **values: Any
) -> Port:
    """Create a port with the requested addresses. `requests` None: one of each IP version that the network has.

    Raises MacAddressInUse, IpAddressAlreadyAllocated, IpAddressGenerationFailure, InvalidIpForSubnet.
    """
    return create_with_addresses(network, groups=groups, requests=requests, **values)[0]


def create_with_addresses(
    network: Network, *, groups: Iterable[SecurityGroup], requests: list[AddressRequest] | None = None, **values: Any
) -> tuple[Port, list[AddressAllocation]]:
    """Create a port as `create` does, and return its addresses. Raw SQL, as every build creates a port."""
    port = _insert(network, values)
    memberships = [(port.pk, group.pk) for group in groups]
    if memberships:
        _MEMBERSHIPS.run(connections[DEFAULT_DB_ALIAS], memberships)
    return port, give_addresses(port, requests)


def delete(port_ids: Sequence[int]) -> None:
    """Delete ports with all related rows, and disassociate their floating IPs."""
    if not port_ids:
        return
    connection = connections[DEFAULT_DB_ALIAS]
    if statements.has_floating_ips(connection, port_ids):
        _disassociate(FloatingIp.objects.filter(port__in=port_ids))
    statements.delete_ports(connection, port_ids)


def give_addresses(port: Port, requests: list[AddressRequest] | None) -> list[AddressAllocation]:
    subnets = sorted(SUBNETS.all(connections[DEFAULT_DB_ALIAS], port.network_id), key=lambda subnet: subnet.pk)
    if requests is None:
        return addresses.allocate_any(subnets, port)
    return [_give(subnets, port, requested) for requested in requests]


def replace_addresses(port: Port, requests: list[AddressRequest]) -> None:
    """Replace the port's addresses: keep those that are requested again, allocate the others, and free the rest."""
    kept = {requested.ip_address for requested in requests if requested.ip_address}
    held: dict[str, AddressAllocation] = {row.ip_address: row for row in port.addresses.select_related("subnet")}
    for address, row in held.items():
        if address not in kept:
            row.delete()
    still_held = held.keys() & kept
    give_addresses(port, [requested for requested in requests if requested.ip_address not in still_held])


def _insert(network: Network, values: dict[str, Any]) -> Port:
    now = timezone.now()
    wanted_mac = values.pop("mac_address", None)
    for _ in range(1 if wanted_mac else ATTEMPTS):
        mac = wanted_mac or new_mac()
        port = Port(network=network, mac_address=mac, created_at=now, updated_at=now, **values)
        if PORTS.insert(connections[DEFAULT_DB_ALIAS], port, unless="mac_address"):
            return port
    raise MacAddressInUse(f"Unable to complete operation for network {network.uuid}. No free MAC address: {mac}.")


def _give(subnets: list[Subnet], port: Port, requested: AddressRequest) -> AddressAllocation:
    if requested.subnet_id is not None:
        subnet = _find(subnets, requested.subnet_id, port)
        if requested.ip_address is None:
            return addresses.allocate(subnet, port)
        return addresses.allocate_address(subnet, port, requested.ip_address)
    if requested.ip_address is not None:
        return addresses.allocate_address(
            subnet_of(subnets, requested.ip_address, port.network), port, requested.ip_address
        )
    raise InvalidInput("Invalid input for fixed_ips. Give a subnet_id, an ip_address or both.")


def _find(subnets: list[Subnet], subnet_id: str, port: Port) -> Subnet:
    wanted = uuid_or_none(subnet_id)
    for subnet in subnets:
        if subnet.uuid == wanted:
            return subnet
    raise SubnetNotFound(f"Subnet {subnet_id} could not be found on network {port.network.uuid}.")


def subnet_of(subnets: Iterable[Subnet], address: str, network: Network) -> Subnet:
    """Return the subnet with `address` as a host's address; raises InvalidIpForSubnet when there is none."""
    refusal = InvalidIpForSubnet(f"IP address {address} is not a valid IP for any subnet of network {network.uuid}.")
    for subnet in subnets:
        try:
            addresses.usable(subnet, address)
        except InvalidIpForSubnet as error:
            refusal = error
        else:
            return subnet
    raise refusal


def release_lost_floating_ips(port: Port) -> None:
    """Disassociate the floating IPs of addresses that the port no longer has; inside a transaction."""
    held = port.addresses.values("ip_address")
    _disassociate(FloatingIp.objects.filter(port=port).exclude(fixed_ip_address__in=held))


def _disassociate(rows: QuerySet[FloatingIp]) -> None:
    touch(rows, port=None, fixed_ip_address=None, router=None)
