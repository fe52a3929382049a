"""Bodies of requests about server groups, per version."""

from __future__ import annotations

from functools import cache

from portal.api.microversions import Microversion
from portal.api.schema_parts import NAME, Schema, closed, wrapped

HARD = ["anti-affinity", "affinity"]
SOFT = ["soft-anti-affinity", "soft-affinity"]
RULES = closed(
    {
        "max_server_per_host": {
            "type": ["integer", "string"],
            "pattern": "^[1-9][0-9]{0,9}$",
            "minimum": 1,
            "maximum": 2**31 - 1,
        }
    }
)


@cache
def create(version: Microversion) -> Schema:
    """POST /os-server-groups."""
    policies = {"enum": HARD + (SOFT if version.covers("2.15") else [])}
    if version.covers("2.64"):
        return wrapped("server_group", {"name": NAME, "policy": policies, "rules": RULES}, required=("name", "policy"))
    one = {"type": "array", "items": policies, "minItems": 1, "maxItems": 1}
    return wrapped("server_group", {"name": NAME, "policies": one}, required=("name", "policies"))
