"""Bodies of metadata definitions, and the schemas that clients can read."""

from __future__ import annotations

from typing import Any

from portal.api.schema_parts import Schema, closed, named

_NAME: Schema = named({"type": "string", "minLength": 1, "maxLength": 80})
_TEXT: Schema = {"type": ["string", "null"], "maxLength": 500}
_STAMPS: Schema = {key: {"type": "string"} for key in ("created_at", "updated_at", "self", "schema")}
# A property defines its values by a JSON schema of its own.
_VALUE: Schema = {
    "title": {"type": "string", "maxLength": 255},
    "description": _TEXT,
    "type": {"enum": ["array", "boolean", "integer", "number", "object", "string", None]},
    "operators": {"type": "array", "items": {"type": "string"}},
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "minLength": {"type": "integer", "minimum": 0},
    "maxLength": {"type": "integer", "minimum": 0},
    "pattern": {"type": "string"},
    "enum": {"type": "array"},
    "readonly": {"type": "boolean"},
    "default": {},
    "items": {"type": "object"},
    "uniqueItems": {"type": "boolean"},
    "minItems": {"type": "integer", "minimum": 0},
    "maxItems": {"type": "integer", "minimum": 0},
    "additionalItems": {"type": "boolean"},
}
PROPERTY = closed({"name": _NAME, **_VALUE, **_STAMPS}, required=("name", "title", "type"))
OBJECT = closed(
    {
        "name": _NAME,
        "description": _TEXT,
        "required": {"type": "array", "items": {"type": "string"}},
        "properties": {"type": "object", "additionalProperties": closed(_VALUE)},
        **_STAMPS,
    },
    required=("name",),
)
TAG = closed({"name": _NAME, **_STAMPS}, required=("name",))
TAGS = closed({"tags": {"type": "array", "items": TAG}}, required=("tags",))
RESOURCE_TYPE = closed(
    {"name": _NAME, "prefix": {"type": "string", "maxLength": 80}, "properties_target": _TEXT, **_STAMPS},
    required=("name",),
)
_NAMESPACE: Schema = {
    "namespace": _NAME,
    "display_name": named({"type": ["string", "null"], "maxLength": 80}),
    "description": _TEXT,
    "visibility": {"enum": ["public", "private"]},
    "protected": {"type": "boolean"},
    "owner": {"type": "string", "minLength": 1, "maxLength": 64},
    **_STAMPS,
}
NAMESPACE = closed(
    {
        **_NAMESPACE,
        "resource_type_associations": {"type": "array", "items": RESOURCE_TYPE},
        "properties": {"type": "object", "additionalProperties": closed(_VALUE)},
        "objects": {"type": "array", "items": OBJECT},
        "tags": {"type": "array", "items": TAG},
    },
    required=("namespace",),
)
BODIES = {"object": OBJECT, "property": PROPERTY, "tag": TAG, "resource_type": RESOURCE_TYPE}


def _document(name: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "properties": schema["properties"], "required": schema.get("required", [])}


def _collection(name: str, item: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "name": name,
        "properties": {name: {"type": "array", "items": item}, "first": text, "next": text, "schema": text},
    }


_ASSOCIATION = _document("resource_type_association", RESOURCE_TYPE)
DOCUMENTS = {
    "namespace": _document("namespace", NAMESPACE),
    "namespaces": _collection("namespaces", _document("namespace", NAMESPACE)),
    "object": _document("object", OBJECT),
    "objects": _collection("objects", _document("object", OBJECT)),
    "property": _document("property", PROPERTY),
    "properties": _collection("properties", _document("property", PROPERTY)),
    "tag": _document("tag", TAG),
    "tags": _collection("tags", _document("tag", TAG)),
    "resource_type": _ASSOCIATION,
    "resource_types": _collection("resource_type_associations", _ASSOCIATION),
}
