"""JSON of routers, their interfaces and floating IPs, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.network import tags, zones
from conductor.network.floating_ips import FloatingIpChange, FloatingIpCreate
from conductor.network.models import FloatingIp, Router
from conductor.network.port_rows import AddressRequest
from conductor.network.router_interfaces import RouterInterface
from conductor.network.routers import GatewayRequest, RouterCreate
from portal.api.network.representations.networks import fields_of, moment
from portal.api.network.representations.ports import fixed_ips
from portal.api.validation import as_boolean

FIELDS = {
    "name": "name",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "availability_zone_hints": "availability_zone_hints",
    "tags": "tag_text",
}
_NOT_OFFERED = ("distributed", "ha")


def router(row: Router, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "admin_state_up": row.is_admin_up,
        "status": "ACTIVE",
        "external_gateway_info": _gateway(row),
        "routes": row.routes,
        "distributed": False,
        "ha": False,
        "availability_zones": [zones.NAME],
        "availability_zone_hints": row.availability_zone_hints,
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_router(given: Mapping[str, Any], context: RequestContext) -> RouterCreate:
    _refuse_not_offered(given, context)
    routes = given.get("routes", ()) or []
    gateway = given.get("external_gateway_info")
    return RouterCreate(
        values=fields_of(given, FIELDS),
        has_gateway="external_gateway_info" in given,
        gateway=_wanted_gateway(gateway) if gateway else None,
        routes=routes if "routes" in given else None,
    )


def interface(found: RouterInterface) -> dict[str, Any]:
    return {
        "id": str(found.router.uuid),
        "project_id": found.router.project_id,
        "tenant_id": found.router.project_id,
        "port_id": str(found.port.uuid),
        "network_id": found.network_id,
        "subnet_id": found.subnet_ids[0] if found.subnet_ids else None,
        "subnet_ids": list(found.subnet_ids),
        "tags": tags.unpacked(found.router.tag_text),
    }


def floating_ip(row: FloatingIp, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "floating_network_id": str(row.network.uuid),
        "floating_ip_address": row.address,
        "fixed_ip_address": row.fixed_ip_address,
        "port_id": str(row.port.uuid) if row.port else None,
        "port_details": _port_details(row),
        "router_id": str(row.router.uuid) if row.router else None,
        "status": "ACTIVE" if row.port else "DOWN",
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_floating_ip(given: Mapping[str, Any], context: RequestContext) -> FloatingIpCreate:
    return FloatingIpCreate(
        network_id=given["floating_network_id"],
        port_id=given.get("port_id") or "",
        fixed_ip_address=given.get("fixed_ip_address") or "",
        address=given.get("floating_ip_address") or "",
        subnet_id=(given.get("subnet_id") or "").lower(),
        project_id=given.get("project_id") or given.get("tenant_id") or "",
        description=given.get("description") or "",
        tag_text=tags.packed(given.get("tags", ())),
    )


def floating_ip_changes(given: Mapping[str, Any], context: RequestContext) -> FloatingIpChange:
    return FloatingIpChange(
        port_id=(given["port_id"] or "") if "port_id" in given else None,
        fixed_ip_address=given.get("fixed_ip_address") or "",
        description=(given["description"] or "") if "description" in given else None,
    )


def _gateway(row: Router) -> dict[str, Any] | None:
    port = row.gateway_port
    if port is None:
        return None
    return {
        "network_id": str(port.network.uuid),
        "enable_snat": row.is_snat_enabled,
        "external_fixed_ips": fixed_ips(port),
    }


def _wanted_gateway(given: Mapping[str, Any]) -> GatewayRequest:
    if not given.get("network_id"):
        raise Invalid(
            "Invalid input for external_gateway_info.network_id. It is a required property.",
            field="external_gateway_info.network_id",
        )
    fixed: Sequence[Mapping[str, str]] | None = given.get("external_fixed_ips")
    snat = given.get("enable_snat")
    return GatewayRequest(
        network_id=given["network_id"],
        fixed_ips=None
        if fixed is None
        else [AddressRequest(subnet_id=one.get("subnet_id"), ip_address=one.get("ip_address")) for one in fixed],
        is_snat_enabled=None if snat is None else as_boolean(snat, "enable_snat"),
    )


def _refuse_not_offered(given: Mapping[str, Any], context: RequestContext) -> None:
    for name in _NOT_OFFERED:
        if name not in given or not as_boolean(given[name], name):
            continue
        if not context.is_admin:
            raise Forbidden(f"Only an administrator may set {name}.", type="PolicyNotAuthorized")
        raise Invalid(f"Invalid input for {name}. Routers of this cloud are central and alone: send false.", field=name)


def _port_details(row: FloatingIp) -> dict[str, Any] | None:
    port = row.port
    if port is None:
        return None
    return {
        "name": port.name,
        "network_id": str(port.network.uuid),
        "mac_address": port.mac_address,
        "admin_state_up": port.is_admin_up,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
    }
