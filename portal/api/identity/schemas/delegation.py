"""Bodies that create application credentials, trusts and stored credentials."""

from __future__ import annotations

from portal.api.identity.schemas.resources import ID, NULLABLE_ID, open_to_more
from portal.api.schema_parts import NAME, NULLABLE_TEXT, Schema, wrapped

_MOMENT: Schema = {
    "type": ["string", "null"],
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?\Z",
    "x-fix": "It must be a time such as 2027-01-31T12:00:00Z.",
}
_ROLE: Schema = {
    "type": "object",
    "properties": {"id": ID, "name": NAME},
    "additionalProperties": True,
    "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    "x-fix": "A role is named by its id or name.",
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_ACCESS_RULE: Schema = {
    "type": "object",
    "properties": {
        "id": ID,
        "service": {"type": "string", "minLength": 1, "maxLength": 64},
        "path": {
            "type": "string",
            "maxLength": 128,
            "pattern": r"^/[^\s]*\Z",
            "x-fix": "It must be a path of at most 128 characters that begins with a slash.",
        },
        "method": {"enum": _METHODS},
    },
    "additionalProperties": False,
    "anyOf": [{"required": ["id"]}, {"required": ["service", "path", "method"]}],
}
CREATE_APPLICATION_CREDENTIAL = wrapped(
    "application_credential",
    {
        "name": NAME,
        "description": NULLABLE_TEXT,
        "secret": {"type": ["string", "null"], "maxLength": 4096},
        "expires_at": _MOMENT,
        "roles": {"type": ["array", "null"], "items": _ROLE, "maxItems": 100},
        "unrestricted": {"type": ["boolean", "null"]},
        "access_rules": {"type": ["array", "null"], "items": _ACCESS_RULE, "maxItems": 100},
    },
    required=("name",),
)
CREATE_TRUST = wrapped(
    "trust",
    {
        "trustor_user_id": ID,
        "trustee_user_id": ID,
        "project_id": NULLABLE_ID,
        "impersonation": {"type": "boolean"},
        "roles": {"type": "array", "items": _ROLE, "maxItems": 100},
        "expires_at": _MOMENT,
        "remaining_uses": {"type": ["integer", "null"], "minimum": 1, "maximum": 2**31 - 1},
        "allow_redelegation": {"const": False, "x-fix": "Handing a trust on is not supported here; it must be false."},
        "redelegation_count": {
            "enum": [0, None],
            "x-fix": "Handing a trust on is not supported here; leave it out.",
        },
    },
    required=("trustor_user_id", "trustee_user_id", "impersonation"),
)
_CREDENTIAL: Schema = {
    "user_id": ID,
    "project_id": NULLABLE_ID,
    "type": {"type": "string", "minLength": 1, "maxLength": 255},
    "blob": {"type": "string", "maxLength": 65535},
}
CREATE_CREDENTIAL = open_to_more("credential", _CREDENTIAL, required=("type", "blob", "user_id"))
CHANGE_CREDENTIAL = open_to_more("credential", _CREDENTIAL)
CREATE_EC2: Schema = {
    "type": "object",
    "properties": {"tenant_id": ID, "project_id": ID},
    "additionalProperties": False,
    "minProperties": 1,
}
