"""Bodies of QoS policies and their rules."""

from __future__ import annotations

from portal.api.network.schemas.bodies import OWNER, SHORT_TEXT
from portal.api.schema_parts import BOOLEAN, Schema, closed, named, wrapped

_POLICY: Schema = {
    "name": named({"type": "string", "minLength": 1, "maxLength": 255}),
    "description": SHORT_TEXT,
    "shared": BOOLEAN,
}
CREATE_POLICY = closed({**_POLICY, **OWNER}, required=("name",))
UPDATE_POLICY = closed(_POLICY)


def _kbps(least: int) -> Schema:
    return {"type": ["integer", "string"], "pattern": r"^[0-9]{1,10}\Z", "minimum": least, "maximum": 2**31 - 1}


_LIMIT: Schema = {
    "max_kbps": _kbps(1),
    "max_burst_kbps": _kbps(0),
    "direction": {"enum": ["egress", "ingress"]},
}
CREATE_LIMIT = wrapped("bandwidth_limit_rule", {**_LIMIT, **OWNER}, required=("max_kbps",))
UPDATE_LIMIT = wrapped("bandwidth_limit_rule", _LIMIT)
