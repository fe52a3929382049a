"""Bodies that create and change services, endpoints, regions and limits."""

from __future__ import annotations

from portal.api.identity.schemas.resources import ENABLED, ID, NULLABLE_ID, open_to_more
from portal.api.schema_parts import NULLABLE_TEXT, Schema, closed, named, wrapped

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_REGION_ID: Schema = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^/\u0000-\u001f\u007f]+\Z",
    "x-fix": "It must have 1 to 255 characters, without slashes.",
}
_SERVICE: Schema = {
    "type": _TEXT,
    "name": named({"type": ["string", "null"], "maxLength": 255}),
    "description": NULLABLE_TEXT,
    "enabled": ENABLED,
}
CREATE_SERVICE = open_to_more("service", _SERVICE, required=("type",))
CHANGE_SERVICE = open_to_more("service", _SERVICE)

_ENDPOINT: Schema = {
    "service_id": ID,
    "interface": {"enum": ["public", "internal", "admin"]},
    "region": _REGION_ID,
    "region_id": _REGION_ID,
    "url": {
        "type": "string",
        "maxLength": 2048,
        "pattern": r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#]+\S*\Z",
        "x-fix": "It must be an address such as http://host:port/path.",
    },
    "name": named({"type": ["string", "null"], "maxLength": 255}),
    "description": NULLABLE_TEXT,
    "enabled": ENABLED,
}
CREATE_ENDPOINT = open_to_more("endpoint", _ENDPOINT, required=("service_id", "interface", "url"))
CHANGE_ENDPOINT = open_to_more("endpoint", _ENDPOINT)

_REGION: Schema = {"id": _REGION_ID, "description": NULLABLE_TEXT, "parent_region_id": _REGION_ID}
CREATE_REGION = open_to_more("region", _REGION)
CHANGE_REGION = open_to_more("region", _REGION)

_FILTERS: Schema = {
    **closed({"service_id": ID, "region_id": ID, "interface": {"enum": ["public", "internal", "admin"]}}),
    "minProperties": 1,
    "x-fix": "Name a service_id, a region_id or an interface (public, internal, admin).",
}
_ENDPOINT_GROUP: Schema = {"name": named(_TEXT), "description": NULLABLE_TEXT, "filters": _FILTERS}
CREATE_ENDPOINT_GROUP = wrapped("endpoint_group", _ENDPOINT_GROUP, required=("name", "filters"))
CHANGE_ENDPOINT_GROUP = wrapped("endpoint_group", _ENDPOINT_GROUP)

_BLOB: Schema = {"type": ["string", "object"], "maxLength": 65535, "maxProperties": 1000}
CREATE_POLICY = open_to_more("policy", {"blob": _BLOB, "type": _TEXT}, required=("blob", "type"))
CHANGE_POLICY = open_to_more("policy", {"blob": _BLOB, "type": _TEXT})

_VALUE: Schema = {"type": ["string", "integer", "boolean", "null"], "maxLength": 1024}
_OPTIONS: Schema = {"type": "object", "additionalProperties": _VALUE, "maxProperties": 100}
DOMAIN_CONFIG = closed(
    {"config": {"type": "object", "additionalProperties": _OPTIONS, "maxProperties": 10}}, required=("config",)
)
DOMAIN_OPTION = closed({"config": {**_OPTIONS, "minProperties": 1, "maxProperties": 1}}, required=("config",))

_AMOUNT: Schema = {"type": "integer", "minimum": -1, "maximum": 2**31 - 1}
_REGISTERED: Schema = {
    "service_id": ID,
    "region_id": NULLABLE_ID,
    "resource_name": named(_TEXT),
    "default_limit": _AMOUNT,
    "description": NULLABLE_TEXT,
}
_REQUIRED = ("service_id", "resource_name", "default_limit")
_MANY: Schema = {"type": "array", "minItems": 1, "maxItems": 1000}
CREATE_REGISTERED = closed(
    {"registered_limits": {**_MANY, "items": closed(_REGISTERED, required=_REQUIRED)}}, required=("registered_limits",)
)
CHANGE_REGISTERED = wrapped("registered_limit", _REGISTERED)
_LIMIT = closed(
    {
        "project_id": NULLABLE_ID,
        "domain_id": NULLABLE_ID,
        "service_id": ID,
        "region_id": NULLABLE_ID,
        "resource_name": named(_TEXT),
        "resource_limit": _AMOUNT,
        "description": NULLABLE_TEXT,
    },
    required=("service_id", "resource_name", "resource_limit"),
)
CREATE_LIMITS = closed({"limits": {**_MANY, "items": _LIMIT}}, required=("limits",))
CHANGE_LIMIT = wrapped("limit", {"resource_limit": _AMOUNT, "description": NULLABLE_TEXT})
