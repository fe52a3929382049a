"""Body of POST /v3/auth/tokens."""

from __future__ import annotations

from portal.api.schema_parts import Schema, closed

_TEXT: Schema = {"type": "string", "maxLength": 255}
_DOMAIN = {**closed({"id": _TEXT, "name": _TEXT}), "minProperties": 1}
_REFERENCE: Schema = {"id": _TEXT, "name": _TEXT, "domain": _DOMAIN}
_PROJECT = {**closed(_REFERENCE), "minProperties": 1}
_USER = closed({**_REFERENCE, "password": {"type": "string", "maxLength": 4096}}, required=("password",))
_IDENTITY = closed(
    {
        "methods": {"type": "array", "items": {"enum": ["password", "token"]}, "minItems": 1, "maxItems": 2},
        "password": closed({"user": _USER}, required=("user",)),
        "token": closed({"id": {"type": "string", "maxLength": 4096}}, required=("id",)),
    },
    required=("methods",),
)
_SCOPE: Schema = {
    "oneOf": [
        {"const": "unscoped"},
        {
            **closed(
                {
                    "project": _PROJECT,
                    "domain": _DOMAIN,
                    "system": closed({"all": {"type": "boolean"}}),
                    "unscoped": {"type": "object", "maxProperties": 0},
                }
            ),
            "maxProperties": 1,
        },
    ]
}
LOG_IN = closed({"auth": closed({"identity": _IDENTITY, "scope": _SCOPE}, required=("identity",))}, required=("auth",))
