"""Network API: who may do what."""

from __future__ import annotations

from portal.api.authorization import ADMIN, MEMBER, READER, RuleTable

# What belongs to whom, and what only administrators may set, is the network service's business.
_COLLECTIONS = ("network", "subnet", "port", "security_group", "security_group_rule")

RULES: RuleTable = {
    **{f"get_{name}": READER for name in (*_COLLECTIONS, "subnetpool", "quota", "floatingip", "router")},
    **{f"{verb}_{name}": MEMBER for verb in ("create", "update", "delete") for name in _COLLECTIONS},
    "get_extension": READER,
    "get_availability_zone": READER,
    "get_agent": ADMIN,
    "list_quotas": ADMIN,
    "get_port:binding:host_id": ADMIN,
}
