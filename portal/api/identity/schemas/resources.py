"""Bodies that create and change domains, projects, users, groups and roles."""

from __future__ import annotations

from typing import Any

from portal.api.schema_parts import NAME, NULLABLE_TEXT, Schema, closed, wrapped

ENABLED: Schema = {"type": "boolean"}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
NULLABLE_ID: Schema = {"type": ["string", "null"], "maxLength": 64}
_PASSWORD: Schema = {"type": ["string", "null"]}  # checked by `passwords.require_acceptable`
SHORT_NAME: Schema = {
    **NAME,
    "maxLength": 64,
    "x-fix": "It must have 1 to 64 characters, without control characters and without spaces at either end.",
}
_TAG: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^,/\u0000-\u001f\u007f]*\Z",
    "x-fix": "A tag has 1 to 255 characters, without commas and slashes.",
}
TAG = closed({"tag": _TAG}, required=("tag",))
_TAGS: Schema = {"type": "array", "items": _TAG, "maxItems": 80, "uniqueItems": True}
_IMMUTABLE = closed({"immutable": {"type": ["boolean", "null"]}})
_FLAG: Schema = {"type": ["boolean", "null"]}
# The other options of OpenStack ask for a second factor through its API, which is not supported here.
_USER_OPTIONS = closed(
    {
        "lock_password": _FLAG,
        "ignore_lockout_failure_attempts": _FLAG,
        "ignore_change_password_upon_first_use": _FLAG,
        "ignore_password_expiry": _FLAG,
        "ignore_user_inactivity": _FLAG,
        "multi_factor_auth_enabled": {"enum": [False, None], "x-fix": "A second factor is not supported here."},
        "multi_factor_auth_rules": {
            "type": ["array", "null"],
            "maxItems": 0,
            "x-fix": "A second factor is not supported here; leave the list empty.",
        },
    }
)


def open_to_more(name: str, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of `{"<name>": {…}}` with additional members, which identity has always stored."""
    inner = closed(properties, required=required)
    inner |= {"additionalProperties": True, "propertyNames": {"maxLength": 255, "minLength": 1}, "maxProperties": 100}
    return closed({name: inner}, required=(name,))


def extra_of(given: dict[str, Any], schema: Schema, name: str) -> dict[str, Any]:
    """Return the members of a body that its schema does not list."""
    known = schema["properties"][name]["properties"]
    return {key: value for key, value in given.items() if key not in known}


_DOMAIN: Schema = {
    "name": SHORT_NAME,
    "description": NULLABLE_TEXT,
    "enabled": ENABLED,
    "tags": _TAGS,
    "options": _IMMUTABLE,
}
CREATE_DOMAIN = open_to_more(
    "domain",
    {**_DOMAIN, "explicit_domain_id": {**ID, "pattern": r"^[0-9a-f]{32}\Z", "x-fix": "It must be 32 hex digits."}},
    required=("name",),
)
CHANGE_DOMAIN = open_to_more("domain", _DOMAIN)

_PROJECT: Schema = {
    "name": SHORT_NAME,
    "description": NULLABLE_TEXT,
    "enabled": ENABLED,
    "domain_id": NULLABLE_ID,
    "parent_id": NULLABLE_ID,
    "is_domain": {"type": "boolean"},
    "tags": _TAGS,
    "options": _IMMUTABLE,
}
CREATE_PROJECT = open_to_more("project", _PROJECT, required=("name",))
CHANGE_PROJECT = open_to_more("project", _PROJECT)
CHANGE_TAGS = closed({"tags": _TAGS}, required=("tags",))

_USER: Schema = {
    "name": NAME,
    "password": _PASSWORD,
    "email": {"type": ["string", "null"], "maxLength": 254},
    "description": NULLABLE_TEXT,
    "enabled": ENABLED,
    "domain_id": NULLABLE_ID,
    "default_project_id": NULLABLE_ID,
    "options": _USER_OPTIONS,
}
CREATE_USER = open_to_more("user", _USER, required=("name",))
CHANGE_USER = open_to_more("user", _USER)
CHANGE_PASSWORD = wrapped(
    "user",
    {
        "original_password": {"type": "string", "maxLength": 4096},
        "password": {"type": "string"},
    },
    required=("original_password", "password"),
)

_GROUP: Schema = {"name": SHORT_NAME, "description": NULLABLE_TEXT, "domain_id": NULLABLE_ID}
CREATE_GROUP = open_to_more("group", _GROUP, required=("name",))
CHANGE_GROUP = open_to_more("group", _GROUP)

_ROLE: Schema = {"name": NAME, "description": NULLABLE_TEXT, "domain_id": NULLABLE_ID, "options": _IMMUTABLE}
CREATE_ROLE = open_to_more("role", _ROLE, required=("name",))
CHANGE_ROLE = open_to_more("role", _ROLE)
