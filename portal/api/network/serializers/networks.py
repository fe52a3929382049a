"""Networks, subnets and their pools: JSON out, and what a body asks for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from conductor.core.context import RequestContext
from conductor.network.models import Network, Subnet, SubnetPool
from conductor.network.subnets import DEFAULT_GATEWAY, SubnetWish
from portal.api.validation import as_boolean

# API name → field name
NETWORK_FIELDS = {
    "name": "name",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "shared": "is_shared",
    "router:external": "is_external",
    "mtu": "mtu",
    "project_id": "project_id",
    "tenant_id": "project_id",
}
SUBNET_FIELDS = {
    "name": "name",
    "description": "description",
    "gateway_ip": "gateway_ip",
    "allocation_pools": "allocation_pools",
    "enable_dhcp": "is_dhcp_enabled",
    "dns_nameservers": "dns_nameservers",
    "host_routes": "host_routes",
}
_BOOLEANS = frozenset({"admin_state_up", "shared", "router:external", "enable_dhcp"})
_TEXTS = frozenset({"name", "description"})
_LISTS = frozenset({"dns_nameservers", "host_routes", "allocation_pools"})


def moment(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fields_of(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The values of a body by our names; null texts and lists are empty ones."""
    fields = {}
    for name, value in given.items():
        if name not in names:
            continue
        if name in _BOOLEANS:
            value = as_boolean(value, name)
        elif value is None and name in _TEXTS | _LISTS:
            value = "" if name in _TEXTS else []
        fields[names[name]] = value
    return fields


def network(row: Network, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "admin_state_up": row.is_admin_up,
        "status": "ACTIVE",
        "subnets": [str(subnet.uuid) for subnet in row.subnets.all()],
        "shared": row.is_shared,
        "router:external": row.is_external,
        "mtu": row.mtu,
        "availability_zones": [],
        "availability_zone_hints": [],
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        "tags": [],
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_network(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return fields_of(given, NETWORK_FIELDS)


def subnet(row: Subnet, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "network_id": str(row.network.uuid),
        "subnetpool_id": str(row.pool.uuid) if row.pool else None,
        "ip_version": row.ip_version,
        "cidr": row.cidr,
        "gateway_ip": row.gateway_ip,
        "allocation_pools": row.allocation_pools,
        "enable_dhcp": row.is_dhcp_enabled,
        "dns_nameservers": row.dns_nameservers,
        "host_routes": row.host_routes,
        "ipv6_address_mode": None,
        "ipv6_ra_mode": None,
        "service_types": [],
        "tags": [],
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_subnet(given: Mapping[str, Any], context: RequestContext) -> SubnetWish:
    fields = fields_of(given, SUBNET_FIELDS)
    pools = fields.pop("allocation_pools", None) if given.get("allocation_pools") is not None else None
    fields.pop("allocation_pools", None)
    return SubnetWish(
        network_id=given["network_id"],
        ip_version=given.get("ip_version", 4),
        cidr=given.get("cidr"),
        pool_id=given.get("subnetpool_id"),
        prefix_length=int(given["prefixlen"]) if given.get("prefixlen") is not None else None,
        pools=pools,
        gateway_ip=fields.pop("gateway_ip", DEFAULT_GATEWAY),
        **fields,
    )


def subnet_changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return fields_of(given, SUBNET_FIELDS)


def subnet_pool(row: SubnetPool, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": "",
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "prefixes": row.prefixes,
        "default_prefixlen": str(row.default_prefix_length),
        "min_prefixlen": "8",
        "max_prefixlen": "30",
        "ip_version": 6 if ":" in row.prefixes[0] else 4,
        "address_scope_id": None,
        "default_quota": None,
        "is_default": False,
        "shared": row.is_shared,
        "tags": [],
    }
