"""Policies of the load balancer API."""

from __future__ import annotations

from portal.api.authorization import ADMIN, MEMBER, READER, RuleTable

_COLLECTIONS = ("loadbalancer", "listener", "pool", "member", "healthmonitor")

RULES: RuleTable = {
    **{f"get_{name}": READER for name in (*_COLLECTIONS, "quota", "provider")},
    **{f"{verb}_{name}": MEMBER for verb in ("create", "update", "delete") for name in _COLLECTIONS},
    "list_quotas": ADMIN,
    "update_quota": ADMIN,
    "delete_quota": ADMIN,
}
