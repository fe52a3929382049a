"""Bodies of requests about hosts."""

from __future__ import annotations

from portal.api.schema_parts import Schema, closed

_SWITCH: Schema = {"enum": ["enable", "Enable", "ENABLE", "disable", "Disable", "DISABLE"]}
UPDATE: Schema = {**closed({"status": _SWITCH, "maintenance_mode": _SWITCH}), "minProperties": 1}
