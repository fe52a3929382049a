"""Rows of ports: making one with a MAC address and addresses of its own. No transaction here: callers have one."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from conductor.core.identifiers import uuid_or_none
from conductor.network import addresses
from conductor.network.errors import InvalidInput, InvalidIpForSubnet, MacAddressInUse, SubnetNotFound
from conductor.network.models import AddressAllocation, Network, Port, SecurityGroup, Subnet

MAC_PREFIX = "fa:16:3e"
ATTEMPTS = 20


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
    port = _insert(network, values)
    membership = Port.security_groups.through
    membership.objects.bulk_create(membership(port=port, securitygroup=group) for group in groups)
    give_addresses(port, wishes)
    return port


def give_addresses(port: Port, wishes: list[AddressWish] | None) -> None:
    subnets = list(port.network.subnets.order_by("pk"))
    if wishes is None:
        addresses.allocate_any(subnets, port)
        return
    for wish in wishes:
        _give(subnets, port, wish)


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
        try:
            with transaction.atomic():
                return Port.objects.create(network=network, mac_address=mac, created_at=now, updated_at=now, **values)
        except IntegrityError:
            continue
    raise MacAddressInUse(f"Unable to complete operation for network {network.uuid}. No free MAC address: {mac}.")


def _give(subnets: list[Subnet], port: Port, wish: AddressWish) -> None:
    if wish.subnet_id is not None:
        subnet = _find(subnets, wish.subnet_id, port)
        if wish.ip_address is None:
            addresses.allocate(subnet, port)
        else:
            addresses.allocate_address(subnet, port, wish.ip_address)
    elif wish.ip_address is not None:
        addresses.allocate_address(subnet_of(subnets, wish.ip_address, port.network), port, wish.ip_address)
    else:
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
