"""Bodies that create and change projects, users and roles."""

from __future__ import annotations

from portal.api.schema_parts import NAME, NULLABLE_TEXT, Schema, closed, wrapped

# Clients send these with the only value that we have.
_NO_TAGS: Schema = {"type": "array", "maxItems": 0, "x-fix": "Tags are not supported here; leave the list empty."}
_NO_OPTIONS: Schema = {"type": "object", "maxProperties": 0, "x-fix": "Options are not supported; leave them empty."}
_ENABLED: Schema = {"type": "boolean"}
_DOMAIN_ID: Schema = {"type": ["string", "null"], "maxLength": 64}
_PASSWORD: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 4096}
_PROJECT_NAME: Schema = {
    **NAME,
    "maxLength": 64,
    "x-fix": "It must have 1 to 64 characters, without spaces at either end.",
}

_PROJECT: Schema = {
    "name": _PROJECT_NAME,
    "description": NULLABLE_TEXT,
    "enabled": _ENABLED,
    "domain_id": _DOMAIN_ID,
    "parent_id": _DOMAIN_ID,
    "is_domain": {"const": False, "x-fix": "Projects that are domains are not supported; it must be false."},
    "tags": _NO_TAGS,
    "options": _NO_OPTIONS,
}
CREATE_PROJECT = wrapped("project", _PROJECT, required=("name",))
CHANGE_PROJECT = wrapped("project", _PROJECT)

_USER: Schema = {
    "name": NAME,
    "password": _PASSWORD,
    "email": {"type": ["string", "null"], "maxLength": 254},
    "description": NULLABLE_TEXT,
    "enabled": _ENABLED,
    "domain_id": _DOMAIN_ID,
    "default_project_id": {"type": ["string", "null"], "maxLength": 64},
    "options": _NO_OPTIONS,
}
CREATE_USER = wrapped("user", _USER, required=("name",))
CHANGE_USER = wrapped("user", _USER)
CHANGE_PASSWORD = wrapped(
    "user",
    {
        "original_password": {"type": "string", "maxLength": 4096},
        "password": {"type": "string", "minLength": 1, "maxLength": 4096},
    },
    required=("original_password", "password"),
)

CREATE_ROLE = closed(
    {
        "role": closed(
            {
                "name": {**_PROJECT_NAME},
                "description": {"type": "null", "x-fix": "Roles have no description; leave it out."},
                "domain_id": {"type": "null", "x-fix": "Roles of one domain are not supported; leave it out."},
                "options": _NO_OPTIONS,
            },
            required=("name",),
        )
    },
    required=("role",),
)
