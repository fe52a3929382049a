"""Values of the power, rebuild, lock and password actions of POST /servers/{id}/action, per microversion."""

from __future__ import annotations

from functools import cache

from portal.api.compute.schemas.servers import (
    ACCESS_IP_V4,
    ACCESS_IP_V6,
    CERTIFICATES,
    DESCRIPTION,
    DISK_CONFIG,
    FILES,
    FQDN,
    HOSTNAME,
    LONGEST_USER_DATA,
    METADATA,
)
from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, NAME, Schema, closed

PASSWORD: Schema = {"type": "string", "maxLength": 255}
REBOOT = closed({"type": {"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, required=("type",))
CHANGE_PASSWORD = closed({"adminPass": PASSWORD}, required=("adminPass",))
RESET_STATE = closed({"state": {"enum": ["active", "error"]}}, required=("state",))
SECURITY_GROUP = closed({"name": {"type": "string", "minLength": 1, "maxLength": 255}}, required=("name",))
RESCUE: Schema = {
    "anyOf": [
        {"type": "null"},
        closed({"adminPass": PASSWORD, "rescue_image_ref": {"type": "string", "format": "uuid"}}),
    ],
    "x-fix": "It must be null, or hold adminPass and rescue_image_ref (the uuid of an image).",
}
_LOCKED_REASON = closed({"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}}, required=())
_LOCK_WITH_REASON: Schema = {"anyOf": [{"type": "null"}, _LOCKED_REASON]}
_ANYTHING: Schema = {}  # before 2.73 the value of "lock" is ignored

# Members of a rebuild: (first version, last version, schema).
_REBUILD: dict[str, tuple[str, str | None, Schema]] = {
    "name": ("2.1", None, NAME),
    "adminPass": ("2.1", None, PASSWORD),
    "metadata": ("2.1", None, METADATA),
    "preserve_ephemeral": ("2.1", None, BOOLEAN),
    "OS-DCF:diskConfig": ("2.1", None, DISK_CONFIG),
    "accessIPv4": ("2.1", None, ACCESS_IP_V4),
    "accessIPv6": ("2.1", None, ACCESS_IP_V6),
    "personality": ("2.1", "2.56", FILES),
    "description": ("2.19", None, DESCRIPTION),
    "key_name": ("2.54", None, {"type": ["string", "null"], "minLength": 1, "maxLength": 255}),
    "user_data": ("2.57", None, {"type": ["string", "null"], "maxLength": LONGEST_USER_DATA}),
    "trusted_image_certificates": ("2.63", None, CERTIFICATES),
    "hostname": ("2.90", "2.93", HOSTNAME),
}
_IMAGE_REF: Schema = {
    "type": "string",
    "maxLength": 512,
    "pattern": r"^(.*/)?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z",
    "x-fix": "It must be the uuid of an image.",
}


@cache
def lock(version: Microversion) -> Schema:
    return _LOCK_WITH_REASON if version.covers("2.73") else _ANYTHING


@cache
def rebuild(version: Microversion) -> Schema:
    members = {name: schema for name, (first, last, schema) in _REBUILD.items() if version.covers(first, last)}
    if version.covers("2.94"):
        members["hostname"] = FQDN
    return closed({"imageRef": _IMAGE_REF, **members}, required=("imageRef",))
