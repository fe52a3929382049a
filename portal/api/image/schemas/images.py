"""Bodies of images, and the schemas that clients can read."""

from __future__ import annotations

from typing import Any

from conductor.image.attributes import CONTAINER_FORMATS, DISK_FORMATS, VISIBILITIES
from portal.api.schema_parts import UUID, Schema, closed, named

MAX_NAME = 255
MAX_VALUE = 65535
SIZE: Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
TAG: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
PROPERTY: Schema = {"type": "string", "maxLength": MAX_VALUE}

ATTRIBUTES: dict[str, Schema] = {
    "name": named({"type": ["string", "null"], "maxLength": MAX_NAME}),
    "visibility": {"enum": list(VISIBILITIES)},
    "protected": {"type": "boolean"},
    "os_hidden": {"type": "boolean"},
    "min_disk": SIZE,
    "min_ram": SIZE,
    "disk_format": {"enum": [None, *DISK_FORMATS]},
    "container_format": {"enum": [None, *CONTAINER_FORMATS]},
    "owner": {"type": "string", "minLength": 1, "maxLength": 64},
    "tags": {"type": "array", "items": TAG, "maxItems": 128},
}
CREATE: Schema = {
    "type": "object",
    "properties": {"id": UUID, **ATTRIBUTES},
    # Read-only names pass here: they are answered with 403, not 400.
    "additionalProperties": True,
    "propertyNames": {"minLength": 1, "maxLength": MAX_NAME},
}
PROPERTIES: Schema = {
    "type": "object",
    "additionalProperties": PROPERTY,
    "propertyNames": {"minLength": 1, "maxLength": MAX_NAME},
}
PATCH: Schema = {
    "type": "array",
    "items": closed(
        {
            "op": {"enum": ["add", "replace", "remove"]},
            "path": {"type": "string", "pattern": r"^/[^/]+$", "maxLength": 2 * MAX_NAME},
            "value": {},
        },
        required=("op", "path"),
    ),
}
ADD_MEMBER: Schema = closed({"member": {"type": "string", "minLength": 1, "maxLength": 64}}, required=("member",))
UPDATE_MEMBER: Schema = closed({"status": {"enum": ["pending", "accepted", "rejected"]}}, required=("status",))

_TEXT = {"type": "string"}
_NULLABLE = {"type": ["null", "string"]}
_COUNT = {"type": ["null", "integer"], "readOnly": True}
IMAGE_DOCUMENT: dict[str, Any] = {
    "name": "image",
    "properties": {
        **ATTRIBUTES,
        **dict.fromkeys(
            ("id", "status", "created_at", "updated_at", "self", "file", "schema", "stores"), _TEXT | {"readOnly": True}
        ),
        **dict.fromkeys(("checksum", "os_hash_algo", "os_hash_value"), _NULLABLE | {"readOnly": True}),
        **dict.fromkeys(("size", "virtual_size"), _COUNT),
    },
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}
MEMBER_DOCUMENT: dict[str, Any] = {
    "name": "member",
    "properties": dict.fromkeys(("member_id", "image_id", "status", "created_at", "updated_at", "schema"), _TEXT),
}


def _collection(name: str, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "properties": {name: {"type": "array", "items": item}, "schema": _TEXT, "first": _TEXT, "next": _TEXT},
    }


DOCUMENTS = {
    "image": IMAGE_DOCUMENT,
    "images": _collection("images", IMAGE_DOCUMENT),
    "member": MEMBER_DOCUMENT,
    "members": _collection("members", MEMBER_DOCUMENT),
}
_TASK_NAMES = ("id", "type", "status", "owner", "message", "created_at", "updated_at", "expires_at", "self", "schema")
TASK_DOCUMENT: dict[str, Any] = {
    "name": "task",
    "properties": {**dict.fromkeys(_TASK_NAMES, _NULLABLE), **{key: {"type": "object"} for key in ("input", "result")}},
}
TASK_DOCUMENTS = {"task": TASK_DOCUMENT, "tasks": _collection("tasks", TASK_DOCUMENT)}
OLD_PATCH: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **{
                key: {"type": "string", "pattern": r"^/[^/]+$", "maxLength": 510}
                for key in ("add", "replace", "remove")
            },
            "value": {},
        },
        "additionalProperties": False,
    },
}
IMPORT: Schema = closed(
    {
        "method": closed(
            {"name": {"type": "string", "minLength": 1, "maxLength": 64}, "uri": _TEXT}, required=("name",)
        ),
        "stores": {"type": "array", "items": {"const": "files"}, "maxItems": 1},
        "all_stores": {"type": "boolean"},
        "all_stores_must_succeed": {"type": "boolean"},
    },
    required=("method",),
)
