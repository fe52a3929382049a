"""Policies of the placement API. Administrators and services may do everything; readers see their project's usage."""

from __future__ import annotations

from portal.api.authorization import READER, SERVICE, RuleTable

_VERBS = {
    "resource_providers": ("list", "create", "show", "update", "delete"),
    "resource_classes": ("list", "create", "show", "update", "delete"),
    "traits": ("list", "show", "update", "delete"),
    "allocations": ("list", "manage", "update", "delete"),
    "resource_providers:inventories": ("list", "create", "show", "update", "delete"),
    "resource_providers:aggregates": ("list", "update"),
    "resource_providers:traits": ("list", "update", "delete"),
}
RULES: RuleTable = {
    **{f"placement:{noun}:{verb}": SERVICE for noun, verbs in _VERBS.items() for verb in verbs},
    "placement:resource_providers:usages": SERVICE,
    "placement:resource_providers:allocations:list": SERVICE,
    "placement:allocation_candidates:list": SERVICE,
    "placement:reshaper:reshape": SERVICE,
    "placement:usages": READER,
    "placement:usages:any_project": SERVICE,
}
