"""Bodies of our own API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.interventions import INTERVENTIONS, Intervention
from portal.api.schema_parts import BOOLEAN, POSITIVE_INTEGER, Schema, closed

_TEXT = {"type": "string", "minLength": 1, "maxLength": 255}
_FIELDS: Mapping[str, Any] = {
    "reason": {**_TEXT, "pattern": r"\S", "x-fix": "Say why, in at most 255 characters: it is kept in the audit log."},
    "step": {"type": "string", "minLength": 1, "maxLength": 64},
    "confirm": _TEXT,
    "mark": {"type": "string", "enum": ["forced", "skipped"]},
}
_OPTIONAL: Mapping[str, Mapping[str, Any]] = {"skip": {"result": {"type": "object", "maxProperties": 50}}}


def _schema(one: Intervention) -> dict[str, Any]:
    fields = {name: _FIELDS[name] for name in one.needs}
    return {
        "type": "object",
        "properties": {**fields, **_OPTIONAL.get(one.id, {})},
        "required": list(one.needs),
        "additionalProperties": False,
    }


# One for each intervention, from the table that also says who may and when.
INTERVENE: Mapping[str, dict[str, Any]] = {one.id: _schema(one) for one in INTERVENTIONS}

NOTHING: Schema = {"type": "object", "maxProperties": 0}
DRAIN = closed({"most_at_once": POSITIVE_INTEGER, "allows_cold": BOOLEAN, "dry_run": BOOLEAN})
EVALUATE = closed({"fleet": {"enum": ["then", "now"]}})
DRAIN_ACTION = closed({"action": {"enum": ["pause", "resume", "stop", "cancel"]}}, required=("action",))

_PLUGIN_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_PLUGIN: Schema = {
    **closed(
        {
            "enabled": {"type": ["boolean", "null"]},
            "mode": {"type": ["string", "null"], "maxLength": 64},
            "on_failure": {"type": ["string", "null"], "maxLength": 64},
            "multiplier": {"type": ["number", "null"]},
            "options": {"type": ["object", "null"], "maxProperties": 100},
        }
    ),
    "minProperties": 1,
}
CHANGE_PLUGINS: Schema = {
    **closed(
        {
            "order": {"type": "array", "items": _PLUGIN_NAME, "maxItems": 500},
            "plugins": {"type": "object", "maxProperties": 500, "additionalProperties": _PLUGIN},
        }
    ),
    "minProperties": 1,
}
QUARANTINE_PLUGIN = closed(
    {"reason": _FIELDS["reason"], "seconds": {"type": "number", "minimum": 0}}, required=("reason",)
)
RELEASE_PLUGIN = closed({"reason": _FIELDS["reason"]})
