"""Policies of the network API."""

from __future__ import annotations

from portal.api.authorization import ADMIN, MEMBER, READER, RuleTable

# The network service itself checks ownership, and the fields that only administrators may set.
_COLLECTIONS = (
    "network",
    "subnet",
    "subnetpool",
    "address_scope",
    "rbac_policy",
    "port",
    "router",
    "floatingip",
    "security_group",
    "security_group_rule",
    "policy",  # of quality of service
)

RULES: RuleTable = {
    **{f"get_{name}": READER for name in (*_COLLECTIONS, "quota")},
    **{f"{verb}_{name}": MEMBER for verb in ("create", "update", "delete") for name in _COLLECTIONS},
    "add_router_interface": MEMBER,
    "remove_router_interface": MEMBER,
    "add_extraroutes": MEMBER,
    "remove_extraroutes": MEMBER,
    "get_tags": READER,
    "change_tags": MEMBER,
    "get_extension": READER,
    "get_availability_zone": READER,
    "get_service_provider": READER,
    "get_auto_allocated_topology": MEMBER,
    "delete_auto_allocated_topology": MEMBER,
    "get_network_ip_availability": ADMIN,
    "get_agent": READER,  # there are no agents, so there is nothing to hide
    "list_quotas": ADMIN,
    "update_quota": ADMIN,
    "delete_quota": ADMIN,
    "get_port:binding:host_id": ADMIN,
    "get_policy_bandwidth_limit_rule": READER,
    **{f"{verb}_policy_bandwidth_limit_rule": MEMBER for verb in ("create", "update", "delete")},
    "get_rule_type": READER,
}
