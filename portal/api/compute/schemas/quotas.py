"""Bodies of requests about quotas, per version."""

from __future__ import annotations

from functools import cache

from conductor.services.quotas.quotas import DEFAULTS
from portal.api.compute.representations.quotas import UNTIL, is_of_class
from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, Schema, wrapped

LIMIT: Schema = {
    "type": ["integer", "string"],
    "pattern": r"^(-1|[0-9]{1,10})$",
    "minimum": -1,
    "maximum": 2**31 - 1,
    "x-fix": "It must be a whole number, or -1 for no limit.",
}


@cache
def update(version: Microversion) -> Schema:
    """PUT /os-quota-sets/{project}."""
    members: Schema = {name: LIMIT for name in DEFAULTS if version.covers("2.1", UNTIL.get(name))}
    return wrapped("quota_set", {**members, "force": BOOLEAN, "tenant_id": {"type": "string", "maxLength": 64}})


@cache
def update_class(version: Microversion) -> Schema:
    """PUT /os-quota-class-sets/{class}."""
    return wrapped("quota_class_set", {name: LIMIT for name in DEFAULTS if is_of_class(name, version)})
