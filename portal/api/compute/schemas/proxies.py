"""Bodies of requests that are proxied to other services."""

from __future__ import annotations

from conductor.core.messages import message
from portal.api.schema_parts import NULLABLE_TEXT, TEXT, UUID, Schema, closed, wrapped

_GROUP_NAME: Schema = {
    "type": "string",
    "format": "name",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"\S",
    "x-fix": message("invalid.not_blank"),
}
_DESCRIPTION: Schema = {"type": "string", "maxLength": 255}
GROUP = wrapped("security_group", {"name": _GROUP_NAME, "description": _DESCRIPTION}, required=("name", "description"))
_NUMBER: Schema = {
    "type": ["integer", "string", "null"],
    "pattern": r"^-?[0-9]{1,9}\Z",
    "x-fix": message("invalid.whole"),
}
RULE = wrapped(
    "security_group_rule",
    {
        "parent_group_id": UUID,
        "ip_protocol": {"type": ["string", "null"], "maxLength": 16},
        "from_port": _NUMBER,
        "to_port": _NUMBER,
        "cidr": {"type": ["string", "null"], "maxLength": 64},
        "group_id": {"type": ["string", "null"], "format": "uuid"},
    },
    required=("parent_group_id",),
)
FLOATING_IP: Schema = {
    "type": ["object", "null"],
    "properties": {"pool": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}
METADATA_ITEMS: Schema = {
    "type": "object",
    "patternProperties": {r"^[^\u0000-\u001f]{1,255}\Z": {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
IMAGE_METADATA = closed({"metadata": METADATA_ITEMS}, required=("metadata",))
IMAGE_METADATA_ITEM = closed({"meta": {**METADATA_ITEMS, "minProperties": 1, "maxProperties": 1}}, required=("meta",))
_SIZE: Schema = {"type": ["integer", "string", "null"], "pattern": r"^[1-9][0-9]{0,8}\Z", "minimum": 1}
VOLUME = wrapped(
    "volume",
    {
        "size": _SIZE,
        "display_name": {**TEXT, "maxLength": 255},
        "display_description": {**NULLABLE_TEXT, "maxLength": 255},
        "availability_zone": {"type": ["string", "null"], "maxLength": 255},
        "volume_type": {"type": ["string", "null"], "maxLength": 255},
        "snapshot_id": {"type": ["string", "null"], "maxLength": 64},
        "metadata": {**METADATA_ITEMS, "type": ["object", "null"]},
    },
)
SNAPSHOT = wrapped(
    "snapshot",
    {
        "volume_id": {"type": "string", "minLength": 1, "maxLength": 64},
        "display_name": {**NULLABLE_TEXT, "maxLength": 255},
        "display_description": {**NULLABLE_TEXT, "maxLength": 255},
        "force": {"enum": [True, False, "True", "true", "1", "False", "false", "0"]},
    },
    required=("volume_id",),
)
