"""JSON of ports, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.context import RequestContext
from conductor.network import dns_names, tags
from conductor.network.models import Port
from conductor.network.port_operations import PortCreate
from conductor.network.port_rows import AddressRequest
from portal.api.network.representations.networks import fields_of, id_of, moment

FIELDS = {
    "name": "name",
    "description": "description",
    "admin_state_up": "is_admin_up",
    "mac_address": "mac_address",
    "device_id": "device_id",
    "device_owner": "device_owner",
    "binding:host_id": "binding_host",
    "binding:vnic_type": "vnic_type",
    "binding:profile": "binding_profile",
    "port_security_enabled": "is_port_security_enabled",
    "allowed_address_pairs": "address_pairs",
    "extra_dhcp_opts": "dhcp_options",
    "dns_name": "dns_name",
    "qos_policy_id": "qos_policy",
    "tags": "tag_text",
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
        "fixed_ips": fixed_ips(row),
        "admin_state_up": row.is_admin_up,
        "status": row.status,
        "device_id": row.device_id,
        "device_owner": row.device_owner,
        "security_groups": sorted(str(group.uuid) for group in row.security_groups.all()),
        "port_security_enabled": row.is_port_security_enabled,
        "allowed_address_pairs": row.address_pairs or [],
        "extra_dhcp_opts": row.dhcp_options or [],
        "dns_name": dns_names.name_of(row),
        "qos_policy_id": id_of(row.qos_policy),
        "qos_network_policy_id": id_of(row.network.qos_policy),
        "dns_assignment": dns_names.assignments(row),
        "ip_allocation": "immediate" if row.addresses.all() else "none",
        "binding:vnic_type": row.vnic_type,
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }
    if context.is_admin:
        shown |= {
            "binding:host_id": row.binding_host,
            "binding:vif_type": "other" if row.binding_host else "unbound",
            "binding:vif_details": {},
            "binding:profile": row.binding_profile or {},
        }
    return shown


def wanted_port(given: Mapping[str, Any], context: RequestContext) -> PortCreate:
    return PortCreate(
        network_id=given["network_id"],
        fixed_ips=_addresses(given["fixed_ips"]) if given.get("fixed_ips") is not None else None,
        security_groups=given.get("security_groups"),
        values=_new_values(given),
    )


def port_changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    changes = _values(given)
    if "fixed_ips" in given:
        changes["fixed_ips"] = _addresses(given["fixed_ips"] or [])
    if "security_groups" in given:
        changes["security_groups"] = given["security_groups"] or []
    return changes


def fixed_ips(row: Port) -> list[dict[str, str]]:
    held = sorted(row.addresses.all(), key=lambda address: address.pk)
    return [{"subnet_id": str(address.subnet.uuid), "ip_address": address.ip_address} for address in held]


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    values = fields_of(given, FIELDS)
    values |= {name: "" for name in _NULL_IS_EMPTY & values.keys() if values[name] is None}
    if "dhcp_options" in values:
        values["dhcp_options"] = [_option(option) for option in values["dhcp_options"]]
    if values.get("address_pairs"):
        values["address_pairs"] = [_pair(pair) for pair in values["address_pairs"]]
    if values.get("mac_address") is None:
        values.pop("mac_address", None)
    else:
        values["mac_address"] = values["mac_address"].lower()
    return values


def _new_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a new port, without null DHCP options, which an update would remove."""
    values = _values(given)
    if "dhcp_options" in values:
        values["dhcp_options"] = [option for option in values["dhcp_options"] if option["opt_value"] is not None]
    return values


def _option(given: Mapping[str, Any]) -> dict[str, Any]:
    version = int(given.get("ip_version", 4))
    return {"opt_name": given["opt_name"], "opt_value": given.get("opt_value"), "ip_version": version}


def _pair(given: Mapping[str, str]) -> dict[str, str]:
    """Return an address pair with its address or range as it was sent, and its MAC address in lower case."""
    mac_address = given.get("mac_address")
    return {"ip_address": given["ip_address"]} | ({"mac_address": mac_address.lower()} if mac_address else {})


def _addresses(wanted: Sequence[Mapping[str, str]]) -> list[AddressRequest]:
    return [AddressRequest(subnet_id=item.get("subnet_id"), ip_address=item.get("ip_address")) for item in wanted]
