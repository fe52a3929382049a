"""JSON of networks and subnets, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.network import tags, zones
from conductor.network.models import AddressScope, Network, QosPolicy, Subnet
from conductor.network.operations import ALL_PROJECTS, EXTERNAL, SHARED
from conductor.network.provider_networks import DEFAULT_KIND
from conductor.network.subnets import DEFAULT_GATEWAY, SubnetCreate
from portal.api.network.schemas import bodies
from portal.api.validation import as_boolean

# API name → field name
NETWORK_FIELDS = {
    "name": "name",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "shared": "is_shared",
    "router:external": "is_external",
    "mtu": "mtu",
    "port_security_enabled": "is_port_security_enabled",
    "dns_domain": "dns_domain",
    "qos_policy_id": "qos_policy",
    "is_default": "is_default",
    "provider:network_type": "provider_type",
    "provider:physical_network": "physical_network",
    "provider:segmentation_id": "segmentation_id",
    "availability_zone_hints": "availability_zone_hints",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "tags": "tag_text",
}
SUBNET_FIELDS = {
    "name": "name",
    "description": "description",
    "gateway_ip": "gateway_ip",
    "allocation_pools": "allocation_pools",
    "enable_dhcp": "is_dhcp_enabled",
    "dns_nameservers": "dns_nameservers",
    "host_routes": "host_routes",
    "service_types": "service_types",
    "ipv6_address_mode": "ipv6_address_mode",
    "ipv6_ra_mode": "ipv6_ra_mode",
    "tags": "tag_text",
}
_NUMBERS = ("mtu", "segmentation_id")
_BOOLEANS = frozenset(
    {"admin_state_up", "shared", "router:external", "enable_dhcp", "port_security_enabled", "is_default"}
)
_NAMES = frozenset({"dns_domain", "dns_name"})  # in lower case
_TEXTS = frozenset({"name", "description", "provider:network_type", "provider:physical_network"}) | _NAMES
_LISTS = frozenset(
    {"dns_nameservers", "host_routes", "allocation_pools", "service_types", "allowed_address_pairs", "extra_dhcp_opts"}
)


def moment(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fields_of(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a body by field name; null strings and lists become empty."""
    fields = {}
    for name, value in given.items():
        if name not in names:
            continue
        if name == "tags":
            value = tags.packed(value)
        elif name in _BOOLEANS:
            value = as_boolean(value, name)
        elif value is None and name in _TEXTS | _LISTS:
            value = "" if name in _TEXTS else []
        elif name in _NAMES:
            value = value.lower()
        fields[names[name]] = value
    return fields


def network(row: Network, context: RequestContext) -> dict[str, Any]:
    subnets = sorted(row.subnets.all(), key=lambda one: one.pk)
    scopes = {one.ip_version: one.pool.address_scope for one in subnets if one.pool and one.pool.address_scope}
    shown = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "admin_state_up": row.is_admin_up,
        "status": "ACTIVE",
        "subnets": [str(one.uuid) for one in subnets],
        "shared": row.is_shared or _is_granted(row, context, SHARED),
        "router:external": row.is_external or _is_granted(row, context, EXTERNAL),
        "is_default": row.is_default,
        "mtu": row.mtu,
        "port_security_enabled": row.is_port_security_enabled,
        "dns_domain": row.dns_domain,
        "qos_policy_id": id_of(row.qos_policy),
        "availability_zones": [zones.NAME],
        "availability_zone_hints": row.availability_zone_hints or [],
        "ipv4_address_scope": id_of(scopes.get(4)),
        "ipv6_address_scope": id_of(scopes.get(6)),
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }
    return shown | _provider(row) if context.is_admin else shown


def _provider(row: Network) -> dict[str, Any]:
    return {
        "provider:network_type": row.provider_type or DEFAULT_KIND,
        "provider:physical_network": row.physical_network or None,
        "provider:segmentation_id": row.segmentation_id,
    }


def _is_granted(row: Network, context: RequestContext, action: str) -> bool:
    targets = (ALL_PROJECTS, context.project_id)
    return any(policy.action == action and policy.target_project in targets for policy in row.rbac_policies.all())


def id_of(row: AddressScope | QosPolicy | None) -> str | None:
    return str(row.uuid) if row else None


def wanted_network(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    fields = fields_of(given, NETWORK_FIELDS)
    fields |= {name: int(fields[name]) for name in _NUMBERS if fields.get(name) is not None}
    if not bodies.MIN_MTU <= fields.get("mtu", bodies.MAX_MTU) <= bodies.MAX_MTU:  # text passes the schema
        raise Invalid(f"Invalid input for mtu. It must be {bodies.MIN_MTU} to {bodies.MAX_MTU}.", field="mtu")
    return fields


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
        "ipv6_address_mode": row.ipv6_address_mode,
        "ipv6_ra_mode": row.ipv6_ra_mode,
        "service_types": row.service_types or [],
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_subnet(given: Mapping[str, Any], context: RequestContext) -> SubnetCreate:
    fields = fields_of(given, SUBNET_FIELDS)
    pools = fields.pop("allocation_pools", None) if given.get("allocation_pools") is not None else None
    fields.pop("allocation_pools", None)
    return SubnetCreate(
        network_id=given["network_id"],
        ip_version=int(given.get("ip_version", 4)),
        cidr=given.get("cidr"),
        pool_id=given.get("subnetpool_id"),
        prefix_length=int(given["prefixlen"]) if given.get("prefixlen") is not None else None,
        pools=pools,
        is_from_default_pool=as_boolean(given.get("use_default_subnetpool", False), "use_default_subnetpool"),
        gateway_ip=fields.pop("gateway_ip", DEFAULT_GATEWAY),
        **fields,
    )


def subnet_changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return fields_of(given, SUBNET_FIELDS)
