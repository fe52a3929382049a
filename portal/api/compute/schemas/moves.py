"""Bodies of actions that move servers, per version; each is the value beside the action's name."""

from __future__ import annotations

from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, Schema, closed

_HOST: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[a-zA-Z0-9._-]+\Z",
    "x-fix": "It must be the name of a host: letters, digits, dots, dashes and underscores.",
}
_HOST_OR_NULL: Schema = {**_HOST, "type": ["string", "null"]}
_DISK_CONFIG: Schema = {"enum": ["AUTO", "MANUAL"]}
_PASSWORD: Schema = {"type": "string", "maxLength": 255}

RESIZE = closed(
    {"flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 255}, "OS-DCF:diskConfig": _DISK_CONFIG},
    required=("flavorRef",),
)
_MIGRATE: Schema = {"type": ["null", "object", "string"], "maxProperties": 0, "maxLength": 0}
_MIGRATE_TO: Schema = {**closed({"host": _HOST_OR_NULL}), "type": ["object", "null"]}

_LIVE_OLD = closed(
    {"host": _HOST_OR_NULL, "block_migration": BOOLEAN, "disk_over_commit": BOOLEAN},
    required=("host", "block_migration", "disk_over_commit"),
)
_BLOCK: Schema = {"enum": [*BOOLEAN["enum"], "auto"], "x-fix": 'It must be true, false or "auto".'}
_LIVE = closed({"host": _HOST_OR_NULL, "block_migration": _BLOCK}, required=("host", "block_migration"))
_LIVE_FORCED = closed(
    {"host": _HOST_OR_NULL, "block_migration": _BLOCK, "force": BOOLEAN}, required=("host", "block_migration")
)
_EVACUATE_OLD = closed(
    {"host": _HOST, "onSharedStorage": BOOLEAN, "adminPass": _PASSWORD}, required=("onSharedStorage",)
)
_EVACUATE = closed({"host": _HOST, "adminPass": _PASSWORD})
_EVACUATE_FORCED = closed({"host": _HOST, "adminPass": _PASSWORD, "force": BOOLEAN})

FORCE_COMPLETE = closed({"force_complete": {"type": "null"}}, required=("force_complete",))


def migrate(version: Microversion) -> Schema:
    return _MIGRATE_TO if version.covers("2.56") else _MIGRATE


def live_migrate(version: Microversion) -> Schema:
    if not version.covers("2.25"):
        return _LIVE_OLD
    return _LIVE_FORCED if version.covers("2.30", "2.67") else _LIVE


def evacuate(version: Microversion) -> Schema:
    if not version.covers("2.14"):
        return _EVACUATE_OLD
    return _EVACUATE_FORCED if version.covers("2.29", "2.67") else _EVACUATE
