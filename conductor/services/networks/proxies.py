"""Proxy of the network service in the Compute API's old form: networks, security groups and floating addresses.

Requests are carried out by the network service, and its errors are converted to this API's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.network import floating_ips, operations, security_groups
from conductor.network.filters import NetworkListQuery
from conductor.network.floating_ips import FloatingIpCreate
from conductor.network.models import FloatingIp, Network
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.services.servers.security_groups import GroupOfServer, view_of_group

PORTS = (1, 65535)
ICMP = (-1, 255)


@dataclass(frozen=True)
class NetworkName:
    """All fields of a network in this API."""

    network_id: str
    name: str


@dataclass(frozen=True)
class OuterAddress:
    """A floating address, with its server, if any."""

    address_id: str
    address: str
    pool: str
    fixed_address: str | None
    instance_uuid: str | None


@dataclass(frozen=True)
class OldRule:
    """Rule of a security group: permits a range of addresses, or members of a group."""

    parent_group_id: str
    protocol: str | None = None
    first: int | None = None
    last: int | None = None
    cidr: str | None = None
    group_id: str | None = None


def networks(context: RequestContext) -> list[NetworkName]:
    """Return the networks that the caller may see."""
    return [_network(row) for row in operations.list_networks(context, NetworkListQuery())]


def network(context: RequestContext, network_id: str) -> NetworkName:
    """Return a network. Raises NotFound."""
    return _network(operations.get_network(context, network_id))


def groups(context: RequestContext, *, all_projects: bool = False) -> list[GroupOfServer]:
    """Return the project's groups by name. An administrator may request those of all projects."""
    wanted = {} if all_projects and context.is_admin else {"project_id": [context.project_id]}
    rows = security_groups.list_groups(context, NetworkListQuery(filters=wanted))
    return sorted((view_of_group(row) for row in rows), key=lambda group: (group.project_id, group.name))


def group(context: RequestContext, group_id: str) -> GroupOfServer:
    """Return a group. Raises NotFound, Invalid for an id that is no uuid."""
    return view_of_group(security_groups.get_group(context, _uuid(group_id, "Security group")))


def create_group(context: RequestContext, name: str, description: str) -> GroupOfServer:
    """Create a group. Raises Invalid for the name `default`, QuotaExceeded."""
    with _refusals():
        return view_of_group(security_groups.create_group(context, {"name": name, "description": description}))


def update_group(context: RequestContext, group_id: str, name: str, description: str) -> GroupOfServer:
    """Update a group. Raises NotFound, Invalid."""
    wanted, changes = _uuid(group_id, "Security group"), {"name": name, "description": description}
    with _refusals():
        return view_of_group(security_groups.update_group(context, wanted, changes))


def delete_group(context: RequestContext, group_id: str) -> None:
    """Delete a group. Raises NotFound, Invalid for one in use by servers, and for the default one."""
    with _refusals():
        security_groups.delete_group(context, _uuid(group_id, "Security group"))


def create_rule(context: RequestContext, wanted: OldRule) -> tuple[GroupOfServer, str]:
    """Create a rule. Return the updated group and the id of the rule. Raises NotFound, or Invalid for an invalid
    rule.
    """
    requested = _rule_create(wanted)
    parent = group(context, wanted.parent_group_id)
    if wanted.group_id:
        group(context, wanted.group_id)
    with _refusals():
        made = security_groups.create_rule(context, requested)
    return group(context, parent.group_id), str(made.uuid)


def delete_rule(context: RequestContext, rule_id: str) -> None:
    """Delete a rule. Raises NotFound, Invalid for an id that is no uuid."""
    with _refusals():
        security_groups.delete_rule(context, _uuid(rule_id, "Security group rule"))


def pools(context: RequestContext) -> list[str]:
    """Return the names of external networks."""
    return [row.name or str(row.uuid) for row in _external(context)]


def addresses(context: RequestContext) -> list[OuterAddress]:
    """Return the project's floating addresses."""
    wanted = {"project_id": [context.project_id]}
    return [_address(row) for row in floating_ips.list_floating_ips(context, NetworkListQuery(filters=wanted))]


def address(context: RequestContext, address_id: str) -> OuterAddress:
    """Return a floating address. Raises NotFound."""
    return _address(floating_ips.get_floating_ip(context, address_id))


def create_address(context: RequestContext, pool: str | None) -> OuterAddress:
    """Allocate an address of a pool, by name or id, or of the only pool.

    Raises NotFound for an unknown or empty pool.
    """
    found = [row for row in _external(context) if pool in (None, row.name, str(row.uuid))]
    if not found:
        raise NotFound(f"Floating IP pool {pool} not found." if pool else "Floating IP pool not found.")
    try:
        made = floating_ips.create_floating_ip(context, FloatingIpCreate(network_id=str(found[0].uuid)))
    except Conflict as error:
        raise NotFound(f"No more floating IPs available. {error.message}") from None
    return _address(floating_ips.get_floating_ip(context, str(made.uuid)))


def delete_address(context: RequestContext, address_id: str) -> None:
    """Release a floating address. Raises NotFound."""
    floating_ips.delete_floating_ip(context, address_id)


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert Conflict to Invalid, as this API always answered conflicts with 400."""
    try:
        yield
    except Conflict as error:
        raise Invalid(error.message) from None


def _uuid(text: str, what: str) -> str:
    if uuid_or_none(text) is None:
        raise Invalid(f"{what} id should be a uuid.", field="id")
    return text


def _external(context: RequestContext) -> list[Network]:
    return operations.list_networks(context, NetworkListQuery(filters={"router:external": ["true"]}))


def _network(row: Network) -> NetworkName:
    return NetworkName(str(row.uuid), row.name)


def _address(row: FloatingIp) -> OuterAddress:
    port = row.port
    return OuterAddress(
        address_id=str(row.uuid),
        address=row.address,
        pool=row.network.name or str(row.network.uuid),
        fixed_address=row.fixed_ip_address,
        instance_uuid=(port.device_id or None) if port else None,
    )


def _rule_create(wanted: OldRule) -> SecurityGroupRuleCreate:
    protocol = (wanted.protocol or "").lower() or None
    first, last = wanted.first, wanted.last
    if wanted.group_id is None and (protocol is None or first is None or last is None):
        raise Invalid("Not enough parameters to build a valid rule.", field="security_group_rule")
    if protocol is not None:
        first, last = _BOUNDS.get(protocol, _unknown)(first, last)
    prefix = None if wanted.group_id else _prefix(wanted.cidr)
    return SecurityGroupRuleCreate(
        group_id=wanted.parent_group_id,
        direction="ingress",
        ethertype="IPv6" if prefix and ":" in prefix else "IPv4",
        protocol=protocol,
        port_range_min=first,
        port_range_max=last,
        remote_ip_prefix=prefix,
        remote_group_id=wanted.group_id,
    )


Bounds = tuple[int | None, int | None]


def _ports(first: int | None, last: int | None) -> Bounds:
    if first is None and last is None:
        return PORTS
    if first is None or last is None or not PORTS[0] <= first <= last <= PORTS[1]:
        raise Invalid(
            f"Invalid port range {first}:{last}. Valid TCP and UDP ports are {PORTS[0]} to {PORTS[1]}, the first not "
            "above the last.",
            field="security_group_rule.from_port",
        )
    return first, last


def _type_and_code(first: int | None, last: int | None) -> Bounds:
    for value in (first, last):
        if value is not None and not ICMP[0] <= value <= ICMP[1]:
            raise Invalid(
                f"Invalid ICMP type or code {value}: it must be {ICMP[0]} to {ICMP[1]}.",
                field="security_group_rule.from_port",
            )
    return (None if first in (None, -1) else first), (None if last in (None, -1) else last)


def _unknown(first: int | None, last: int | None) -> Bounds:
    raise Invalid("Invalid IP protocol: it must be tcp, udp or icmp.", field="security_group_rule.ip_protocol")


_BOUNDS: dict[str, Callable[[int | None, int | None], Bounds]] = {"tcp": _ports, "udp": _ports, "icmp": _type_and_code}


def _prefix(cidr: str | None) -> str:
    """Return the prefix as given; all of IPv4 where none is given."""
    try:
        ip_network(cidr or "0.0.0.0/0", strict=False)
        return cidr or "0.0.0.0/0"
    except ValueError:
        raise Invalid(f"Invalid cidr {(cidr or '')[:60]}.", field="security_group_rule.cidr") from None
