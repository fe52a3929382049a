"""Ports: JSON out, and what a body asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.context import RequestContext
from conductor.network.models import Port
from conductor.network.port_operations import PortWish
from conductor.network.port_rows import AddressWish
from portal.api.network.serializers.networks import fields_of, moment

FIELDS = {
    "name": "name",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "mac_address": "mac_address",
    "device_id": "device_id",
    "device_owner": "device_owner",
    "binding:host_id": "binding_host",
    "project_id": "project_id",
    "tenant_id": "project_id",
}
_NULL_IS_EMPTY = frozenset({"device_id", "device_owner", "binding_host"})


def port(row: Port, context: RequestContext) -> dict[str, Any]:
    shown = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "network_id": str(row.network.uuid),
        "mac_address": row.mac_address,
        "fixed_ips": _fixed_ips(row),
        "admin_state_up": row.is_admin_up,
        "status": row.status,
        "device_id": row.device_id,
        "device_owner": row.device_owner,
        "security_groups": sorted(str(group.uuid) for group in row.security_groups.all()),
        "allowed_address_pairs": [],
        "extra_dhcp_opts": [],
        "binding:vnic_type": "normal",
        "tags": [],
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }
    if context.is_admin:
        shown |= {
            "binding:host_id": row.binding_host,
            "binding:vif_type": "other" if row.binding_host else "unbound",
            "binding:vif_details": {},
            "binding:profile": {},
        }
    return shown


def wanted_port(given: Mapping[str, Any], context: RequestContext) -> PortWish:
    return PortWish(
        network_id=given["network_id"],
        fixed_ips=_addresses(given["fixed_ips"]) if given.get("fixed_ips") is not None else None,
        security_groups=given.get("security_groups"),
        values=_values(given),
    )


def port_changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    changes = _values(given)
    if "fixed_ips" in given:
        changes["fixed_ips"] = _addresses(given["fixed_ips"] or [])
    if "security_groups" in given:
        changes["security_groups"] = given["security_groups"] or []
    return changes


def _fixed_ips(row: Port) -> list[dict[str, str]]:
    held = sorted(row.addresses.all(), key=lambda address: address.pk)
    return [{"subnet_id": str(address.subnet.uuid), "ip_address": address.ip_address} for address in held]


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    values = fields_of(given, FIELDS)
    values |= {name: "" for name in _NULL_IS_EMPTY & values.keys() if values[name] is None}
    if values.get("mac_address") is None:
        values.pop("mac_address", None)
    else:
        values["mac_address"] = values["mac_address"].lower()
    return values


def _addresses(wanted: Sequence[Mapping[str, str]]) -> list[AddressWish]:
    return [AddressWish(subnet_id=item.get("subnet_id"), ip_address=item.get("ip_address")) for item in wanted]
