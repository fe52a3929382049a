"""Bodies of requests about aggregates."""

from __future__ import annotations

from portal.api.schema_parts import NAME, Schema, closed, wrapped

# No colon: `zone:host` in a launch names a host in a zone.
ZONE: Schema = {
    "type": ["string", "null"],
    "format": "name",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?![\s])[^:\u0000-\u001f\u007f]*(?<![\s])\Z",
    "x-fix": "It must have 1 to 255 characters, without colons and without spaces at either end, or be null.",
}
HOST: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[a-zA-Z0-9._-]+\Z",
    "x-fix": "It must be the name of a host: letters, digits, dots, dashes and underscores.",
}
_VALUE: Schema = {"type": ["string", "null"], "maxLength": 255}
METADATA: Schema = {
    "type": "object",
    "properties": {"availability_zone": ZONE},
    "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}\Z": _VALUE},
    "additionalProperties": False,
}
CREATE = wrapped("aggregate", {"name": NAME, "availability_zone": ZONE}, required=("name",))
UPDATE = closed(
    {"aggregate": {**closed({"name": NAME, "availability_zone": ZONE}), "minProperties": 1}}, required=("aggregate",)
)
_IMAGE = closed({"id": {"type": "string", "format": "uuid"}}, required=("id",))
IMAGES = closed({"cache": {"type": "array", "minItems": 1, "items": _IMAGE}}, required=("cache",))
ACTIONS = {
    "add_host": wrapped("add_host", {"host": HOST}, required=("host",)),
    "remove_host": wrapped("remove_host", {"host": HOST}, required=("host",)),
    "set_metadata": wrapped("set_metadata", {"metadata": METADATA}, required=("metadata",)),
}
