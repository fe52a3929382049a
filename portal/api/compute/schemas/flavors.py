"""Bodies of requests about flavors, per version."""

from __future__ import annotations

from functools import cache

from conductor.core.messages import message
from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, NAME, Schema, closed, wrapped

MAX = 2**31 - 1


def _amount(minimum: int) -> Schema:
    return {
        "type": ["integer", "string"],
        "pattern": r"^[0-9]{1,10}$" if minimum == 0 else r"^0*[1-9][0-9]{0,9}$",
        "minimum": minimum,
        "maximum": MAX,
        "x-fix": message("invalid.whole_range", least=minimum, most=MAX),
    }


FLAVOR_ID: Schema = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )$"},
        {"type": "integer", "minimum": 0, "maximum": MAX},
        {"type": "null"},
    ],
    "x-fix": "It must have letters, digits, dots, dashes, underscores or spaces, without spaces at either end.",
}
FACTOR: Schema = {
    "type": ["number", "string"],
    "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9})?$",
    "exclusiveMinimum": 0,
    "maximum": 3.4e38,
    "x-fix": "It must be a number above 0.",
}
DESCRIPTION: Schema = {
    "type": ["string", "null"],
    "maxLength": 65535,
    "pattern": r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f]*$",
}
SPEC_KEY = r"^[a-zA-Z0-9-_:. ]{1,255}$"
SPEC_VALUE: Schema = {"type": ["string", "number"], "maxLength": 255}
SPECS: Schema = {"type": "object", "patternProperties": {SPEC_KEY: SPEC_VALUE}, "additionalProperties": False}


@cache
def create(version: Microversion) -> Schema:
    """POST /flavors."""
    members: Schema = {
        "name": NAME,
        "id": FLAVOR_ID,
        "ram": _amount(1),
        "vcpus": _amount(1),
        "disk": _amount(0),
        "OS-FLV-EXT-DATA:ephemeral": _amount(0),
        "swap": _amount(0),
        "rxtx_factor": FACTOR,
        "os-flavor-access:is_public": BOOLEAN,
    }
    if version.covers("2.102"):
        del members["rxtx_factor"]
    if version.covers("2.55"):
        members["description"] = DESCRIPTION
    return wrapped("flavor", members, required=("name", "ram", "vcpus", "disk"))


UPDATE = wrapped("flavor", {"description": DESCRIPTION}, required=("description",))
EXTRA_SPECS = closed({"extra_specs": SPECS}, required=("extra_specs",))
EXTRA_SPEC: Schema = {**SPECS, "minProperties": 1, "maxProperties": 1}
_TENANT: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]+$"}
ADD_ACCESS = wrapped("addTenantAccess", {"tenant": _TENANT}, required=("tenant",))
REMOVE_ACCESS = wrapped("removeTenantAccess", {"tenant": _TENANT}, required=("tenant",))
