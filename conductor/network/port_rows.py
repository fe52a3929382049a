"""Rows of ports: making one with a MAC address and addresses of its own. No transaction here: callers have one."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone

from conductor.core.identifiers import uuid_or_none
from conductor.network import addresses, floating_rows
from conductor.network.errors import InvalidInput, InvalidIpForSubnet, MacAddressInUse, SubnetNotFound
from conductor.network.models import AddressAllocation, Network, Port, SecurityGroup, Subnet
from conductor.sql.dialect import Insert, padded, places, run
from conductor.sql.rows import Rows

MAC_PREFIX = "fa:16:3e"
ATTEMPTS = 20
PORTS = Rows(Port, "id")
SUBNETS = Rows(Subnet, "network_id")
HANGING = ("network_port_security_groups", "network_addressallocation")  # on a port, and gone with it
_MEMBERSHIPS = Insert(Port.security_groups.through, "port_id", "securitygroup_id")


@dataclass(frozen=True, slots=True)
class AddressWish:
    """An address, a subnet to take the lowest free one from, or an address of a subnet."""

    subnet_id: str | None = None
    ip_address: str | None = None


def new_mac() -> str:
    return ":".join([MAC_PREFIX, *(f"{byte:02x}" for byte in secrets.token_bytes(3))])


def create(
    network: Network, *, groups: Iterable[SecurityGroup], wishes: list[AddressWish] | None = None, **values: Any
) -> Port:
    """A port with addresses as wished; `wishes` None: one of each IP version that the network has.

    Raises MacAddressInUse, IpAddressAlreadyAllocated, IpAddressGenerationFailure, InvalidIpForSubnet.
    """
    return create_with_addresses(network, groups=groups, wishes=wishes, **values)[0]


def create_with_addresses(
    network: Network, *, groups: Iterable[SecurityGroup], wishes: list[AddressWish] | None = None, **values: Any
) -> tuple[Port, list[AddressAllocation]]:
    """The same, with the addresses that the port got. By hand: every build makes one."""
    port = _insert(network, values)
    memberships = [(port.pk, group.pk) for group in groups]
    if memberships:
        _MEMBERSHIPS.run(connections[DEFAULT_DB_ALIAS], memberships)
    return port, give_addresses(port, wishes)


def delete(port_ids: Sequence[int]) -> None:
    """Take ports away with all that hangs on them; floating IPs that lead to them lead nowhere.

    By hand: every server that goes takes one along, and the ORM would read first what is deleted.
    """
    if not port_ids:
        return
    connection, ids = connections[DEFAULT_DB_ALIAS], padded(port_ids)
    among = f"IN ({places(ids)})"
    if run(connection, f"SELECT 1 FROM network_floatingip WHERE port_id {among} LIMIT 1", ids):
        floating_rows.release(Port.objects.filter(pk__in=port_ids))
    for table in HANGING:
        run(connection, f"DELETE FROM {table} WHERE port_id {among}", ids)
    run(connection, f"DELETE FROM network_port WHERE id {among}", ids)


def give_addresses(port: Port, wishes: list[AddressWish] | None) -> list[AddressAllocation]:
    subnets = sorted(SUBNETS.all(connections[DEFAULT_DB_ALIAS], port.network_id), key=lambda subnet: subnet.pk)
    if wishes is None:
        return addresses.allocate_any(subnets, port)
    return [_give(subnets, port, wish) for wish in wishes]


def replace_addresses(port: Port, wishes: list[AddressWish]) -> None:
    """Keep what is wished for by its address and held already; give back the rest."""
    kept = {wish.ip_address for wish in wishes if wish.ip_address}
    held: dict[str, AddressAllocation] = {row.ip_address: row for row in port.addresses.select_related("subnet")}
    for address, row in held.items():
        if address not in kept:
            row.delete()
    still_held = held.keys() & kept
    give_addresses(port, [wish for wish in wishes if wish.ip_address not in still_held])


def _insert(network: Network, values: dict[str, Any]) -> Port:
    now = timezone.now()
    wanted_mac = values.pop("mac_address", None)
    for _ in range(1 if wanted_mac else ATTEMPTS):
        mac = wanted_mac or new_mac()
        port = Port(network=network, mac_address=mac, created_at=now, updated_at=now, **values)
        if PORTS.insert(connections[DEFAULT_DB_ALIAS], port, unless="mac_address"):
            return port
    raise MacAddressInUse(f"Unable to complete operation for network {network.uuid}. No free MAC address: {mac}.")


def _give(subnets: list[Subnet], port: Port, wish: AddressWish) -> AddressAllocation:
    if wish.subnet_id is not None:
        subnet = _find(subnets, wish.subnet_id, port)
        if wish.ip_address is None:
            return addresses.allocate(subnet, port)
        return addresses.allocate_address(subnet, port, wish.ip_address)
    if wish.ip_address is not None:
        return addresses.allocate_address(subnet_of(subnets, wish.ip_address, port.network), port, wish.ip_address)
    raise InvalidInput("Invalid input for fixed_ips. Give a subnet_id, an ip_address or both.")


def _find(subnets: list[Subnet], subnet_id: str, port: Port) -> Subnet:
    wanted = uuid_or_none(subnet_id)
    for subnet in subnets:
        if subnet.uuid == wanted:
            return subnet
    raise SubnetNotFound(f"Subnet {subnet_id} could not be found on network {port.network.uuid}.")


def subnet_of(subnets: Iterable[Subnet], address: str, network: Network) -> Subnet:
    """The subnet that `address` lies in and can be given to a host of; InvalidIpForSubnet when there is none."""
    refusal = InvalidIpForSubnet(f"IP address {address} is not a valid IP for any subnet of network {network.uuid}.")
    for subnet in subnets:
        try:
            addresses.usable(subnet, address)
        except InvalidIpForSubnet as error:
            refusal = error
        else:
            return subnet
    raise refusal
