"""Bodies of requests about services."""

from __future__ import annotations

from portal.api.schema_parts import BOOLEAN, Schema, closed

_REASON: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\s)[^\u0000-\u001f\u007f]*(?<!\s)$",
}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
UPDATE: Schema = {
    **closed({"status": {"enum": ["enabled", "disabled"]}, "disabled_reason": _REASON, "forced_down": BOOLEAN}),
    "minProperties": 1,
}
SERVICE_BY_NAME = closed({"host": _NAME, "binary": _NAME}, required=("host", "binary"))
DISABLE_WITH_REASON = closed(
    {"host": _NAME, "binary": _NAME, "disabled_reason": _REASON}, required=("host", "binary", "disabled_reason")
)
FORCE_DOWN = closed(
    {"host": _NAME, "binary": _NAME, "forced_down": BOOLEAN}, required=("host", "binary", "forced_down")
)
