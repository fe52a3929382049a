"""Rows of the network API by id, and filters and sort keys of its lists: one table for each collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from ipaddress import ip_address
from operator import and_, or_
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from conductor.core.errors import NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.pagination import SortField, page
from conductor.network import tags
from conductor.network.errors import InvalidInput
from conductor.network.models import AddressAllocation, Port

Row = TypeVar("Row", bound=Model)
Condition = Callable[[Sequence[str]], Q]
NOTHING = Q(pk__in=[])


@dataclass(frozen=True, slots=True)
class NetworkListQuery:
    """Values of one filter are alternatives; filters that a collection does not know are ignored.

    `sort` is a list of (key, is_descending); `limit` None means all. `is_backwards`: the page before the marker.
    """

    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sort: Sequence[tuple[str, bool]] = ()
    limit: int | None = None
    marker: str = ""
    is_backwards: bool = False


def text(column: str) -> Condition:
    return lambda values: Q(**{f"{column}__in": list(values)})


def uuid(column: str) -> Condition:
    """Return a condition on a uuid column; text that is not a uuid matches nothing."""
    return lambda values: Q(**{f"{column}__in": [wanted for wanted in map(uuid_or_none, values) if wanted]})


def number(column: str) -> Condition:
    return lambda values: Q(
        **{f"{column}__in": [int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 10]}
    )


def boolean(column: str) -> Condition:
    return lambda values: Q(**{f"{column}__in": [_truth(column, value) for value in values]})


def constant_boolean(name: str, *, is_set: bool) -> Condition:
    """Return a condition on a boolean attribute with the same value for all rows."""
    return lambda values: Q() if is_set in [_truth(name, value) for value in values] else NOTHING


def changed_since(values: Sequence[str]) -> Q:
    """Return the condition of `changed_since=2026-01-31T12:00:00`: rows that changed then or later."""
    return reduce(or_, (Q(updated_at__gte=_moment(value)) for value in values))


def constant(shown: str) -> Condition:
    """Return a condition on an attribute with the same value for all rows."""
    return lambda values: Q() if shown in values else NOTHING


def fixed_ips(values: Sequence[str]) -> Q:
    """Return the condition of `ip_address=10.0.0.5`, `ip_address_substr=10.0`, `subnet_id=…`: all about one address."""
    addresses = AddressAllocation.objects.all()
    for value in values:
        name, _, wanted = value.partition("=")
        if name not in _FIXED_IP:
            raise InvalidInput(f"Invalid input for fixed_ips. '{value[:60]}' is not ip_address=… or subnet_id=….")
        addresses = addresses.filter(_FIXED_IP[name](wanted))
    return Q(pk__in=addresses.values("port_id"))


def _address(value: str) -> Q:
    try:
        return Q(ip_address=str(ip_address(value)))
    except ValueError:
        return NOTHING


_FIXED_IP: dict[str, Callable[[str], Q]] = {
    "ip_address": _address,
    "ip_address_substr": lambda value: Q(ip_address__contains=value),
    "subnet_id": lambda value: uuid("subnet__uuid")([value]),
}
_TRUTH = {"true": True, "1": True, "t": True, "yes": True, "on": True}
_TRUTH |= {"false": False, "0": False, "f": False, "no": False, "off": False}

_OWNED: dict[str, Condition] = {
    "id": uuid("uuid"),
    "name": text("name"),
    "description": text("description"),
    "project_id": text("project_id"),
    "tenant_id": text("project_id"),
    "revision_number": number("revision_number"),
    "changed_since": changed_since,
}
_TAGGED = _OWNED | tags.CONDITIONS
_NAMELESS = {name: condition for name, condition in _TAGGED.items() if name != "name"}
NETWORKS = _TAGGED | {
    "shared": boolean("is_shared"),
    "router:external": boolean("is_external"),
    "admin_state_up": boolean("is_admin_up"),
    "mtu": number("mtu"),
    "status": constant("ACTIVE"),
    "is_default": boolean("is_default"),
    "port_security_enabled": boolean("is_port_security_enabled"),
}
ADMIN_NETWORKS = NETWORKS | {
    "provider:network_type": text("provider_type"),
    "provider:physical_network": text("physical_network"),
    "provider:segmentation_id": number("segmentation_id"),
}
SUBNETS = _TAGGED | {
    "network_id": uuid("network__uuid"),
    "subnetpool_id": uuid("pool__uuid"),
    "ip_version": number("ip_version"),
    "cidr": text("cidr"),
    "gateway_ip": text("gateway_ip"),
    "enable_dhcp": boolean("is_dhcp_enabled"),
    "shared": boolean("network__is_shared"),
    "ipv6_address_mode": text("ipv6_address_mode"),
    "ipv6_ra_mode": text("ipv6_ra_mode"),
}
SUBNET_POOLS = _TAGGED | {
    "shared": boolean("is_shared"),
    "is_default": boolean("is_default"),
    "address_scope_id": uuid("address_scope__uuid"),
    "default_prefixlen": number("default_prefix_length"),
    "min_prefixlen": number("min_prefix_length"),
    "max_prefixlen": number("max_prefix_length"),
    "default_quota": number("default_quota"),
    "ip_version": lambda values: _pools_of(values),
}
ADDRESS_SCOPES: dict[str, Condition] = {
    "id": uuid("uuid"),
    "name": text("name"),
    "project_id": text("project_id"),
    "tenant_id": text("project_id"),
    "ip_version": number("ip_version"),
    "shared": boolean("is_shared"),
}
ROUTERS = _TAGGED | {
    "admin_state_up": boolean("is_admin_up"),
    "status": constant("ACTIVE"),
    "distributed": constant_boolean("distributed", is_set=False),
    "ha": constant_boolean("ha", is_set=False),
}
FLOATING_IPS = _NAMELESS | {
    "floating_network_id": uuid("network__uuid"),
    "floating_ip_address": text("address"),
    "fixed_ip_address": text("fixed_ip_address"),
    "router_id": uuid("router__uuid"),
    "port_id": uuid("port__uuid"),
    "status": lambda values: _leading(values),
}
QOS_POLICIES = _OWNED | {"shared": boolean("is_shared")}
RBAC_POLICIES: dict[str, Condition] = {
    "id": uuid("uuid"),
    "project_id": text("project_id"),
    "tenant_id": text("project_id"),
    "object_type": constant("network"),
    "object_id": uuid("network__uuid"),
    "action": text("action"),
    "target_tenant": text("target_project"),
    "target_project": text("target_project"),
}
PORTS = _TAGGED | {
    "network_id": uuid("network__uuid"),
    "device_id": text("device_id"),
    "device_owner": text("device_owner"),
    "mac_address": lambda values: Q(mac_address__in=[value.lower() for value in values]),
    "status": text("status"),
    "admin_state_up": boolean("is_admin_up"),
    "fixed_ips": fixed_ips,
    "security_groups": lambda values: _in_groups(values),
    "port_security_enabled": boolean("is_port_security_enabled"),
    "binding:vnic_type": text("vnic_type"),
    "ip_allocation": constant("immediate"),
}
ADMIN_PORTS = PORTS | {"binding:host_id": text("binding_host")}
SECURITY_GROUPS = _TAGGED | {
    "stateful": boolean("is_stateful"),
    "shared": constant_boolean("shared", is_set=False),
}
SECURITY_GROUP_RULES: dict[str, Condition] = {
    "id": uuid("uuid"),
    "security_group_id": uuid("group__uuid"),
    "project_id": text("group__project_id"),
    "tenant_id": text("group__project_id"),
    "remote_group_id": uuid("remote_group__uuid"),
    "direction": text("direction"),
    "ethertype": text("ethertype"),
    "protocol": text("protocol"),
    "port_range_min": number("port_range_min"),
    "port_range_max": number("port_range_max"),
    "remote_ip_prefix": text("remote_ip_prefix"),
    "description": text("description"),
    "revision_number": number("revision_number"),
    "changed_since": changed_since,
}
# Sort keys that are columns of the row itself and never null, by their public names.
_SORT = {
    "id": "uuid",
    "name": "name",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "cidr": "cidr",
    "ip_version": "ip_version",
    "mac_address": "mac_address",
    "device_id": "device_id",
    "device_owner": "device_owner",
    "status": "status",
    "direction": "direction",
    "ethertype": "ethertype",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "shared": "is_shared",
    "mtu": "mtu",
    "enable_dhcp": "is_dhcp_enabled",
    "floating_ip_address": "address",
    "revision_number": "revision_number",
}


def find_one(rows: QuerySet[Row], ref: str, missing: NotFound) -> Row:
    """Return the row with the uuid `ref`. Raises `missing`, also for a text that is no uuid."""
    wanted = uuid_or_none(ref)
    row = rows.filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing
    return row


def select(rows: QuerySet[Row], query: NetworkListQuery, table: Mapping[str, Condition]) -> list[Row]:
    """Return the page of `rows` that `query` selects. Raises InvalidInput for a bad value, sort key or marker."""
    conditions = [table[name](values) for name, values in query.filters.items() if name in table]
    narrowed = rows.filter(reduce(and_, conditions, Q()))
    order = [_order(rows, key, is_descending) for key, is_descending in query.sort]
    return page(narrowed, order, anchors=rows, marker=query.marker, limit=query.limit, is_backwards=query.is_backwards)


def _order(rows: QuerySet[Row], key: str, is_descending: bool) -> SortField:
    columns = {column.name for column in rows.model._meta.concrete_fields}
    if _SORT.get(key) not in columns:
        raise InvalidInput(f"'{key}' is not a valid attribute for sorting.")
    return SortField(_SORT[key], is_descending)


def _truth(column: str, value: str) -> bool:
    truth = _TRUTH.get(value.strip().lower())
    if truth is None:
        raise InvalidInput(f"Invalid input for {column.removeprefix('is_')}. '{value[:60]}' is neither true nor false.")
    return truth


def _moment(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"Invalid input for changed_since. '{value[:60]}' is not a time.") from None


def _pools_of(values: Sequence[str]) -> Q:
    """Return the condition of IP versions of subnet pools, all of whose prefixes have the same."""
    is_six = Q(prefixes__0__icontains=":")
    wanted = {"4": ~is_six, "6": is_six}
    return reduce(or_, (wanted[value] for value in values if value in wanted), NOTHING)


def _in_groups(values: Sequence[str]) -> Q:
    return Q(pk__in=Port.objects.filter(uuid("security_groups__uuid")(values)).values("pk"))


def _leading(values: Sequence[str]) -> Q:
    """Return the condition of a status: a floating IP is ACTIVE while it is associated with a port, else DOWN."""
    wanted = {"ACTIVE": Q(port__isnull=False), "DOWN": Q(port__isnull=True)}
    return reduce(or_, (wanted[value] for value in values if value in wanted), NOTHING)
