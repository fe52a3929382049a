"""Body of POST /v3/auth/tokens."""

from __future__ import annotations

from portal.api.schema_parts import Schema, closed

METHODS = ("password", "totp", "token", "application_credential")
_TEXT: Schema = {"type": "string", "maxLength": 255}
_SECRET: Schema = {"type": "string", "maxLength": 4096}
_DOMAIN = {**closed({"id": _TEXT, "name": _TEXT}), "minProperties": 1}
_REFERENCE: Schema = {"id": _TEXT, "name": _TEXT, "domain": _DOMAIN}
_PROJECT = {**closed(_REFERENCE), "minProperties": 1}
_USER = closed({**_REFERENCE, "password": _SECRET}, required=("password",))
_CODE = closed({**_REFERENCE, "passcode": {"type": "string", "maxLength": 64}}, required=("passcode",))
_CREDENTIAL = closed(
    {"id": _TEXT, "name": _TEXT, "secret": _SECRET, "user": {**closed(_REFERENCE), "minProperties": 1}},
    required=("secret",),
)
_IDENTITY = closed(
    {
        "methods": {"type": "array", "items": {"enum": list(METHODS)}, "minItems": 1, "maxItems": len(METHODS)},
        "password": closed({"user": _USER}, required=("user",)),
        "totp": closed({"user": _CODE}, required=("user",)),
        "token": closed({"id": _SECRET}, required=("id",)),
        "application_credential": _CREDENTIAL,
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
                    "system": closed({"all": {"const": True}}, required=("all",)),
                    "OS-TRUST:trust": closed({"id": _TEXT}, required=("id",)),
                    "unscoped": {"type": "object", "maxProperties": 0},
                }
            ),
            "maxProperties": 1,
        },
    ]
}
LOG_IN = closed({"auth": closed({"identity": _IDENTITY, "scope": _SCOPE}, required=("identity",))}, required=("auth",))
