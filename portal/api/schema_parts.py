"""Parts that request schemas share."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def named(schema: Schema) -> Schema:
    """Return the schema of a resource's name: `schema`, without control characters and line breaks."""
    return {**schema, "format": "name"}


# Patterns end with \Z, because $ would allow a trailing newline. Names are not empty, have no blanks at either end, and
# no control characters.
NAME: Schema = {
    "type": "string",
    "format": "name",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\s)[\s\S]*(?<!\s)\Z",
    "x-fix": "It must have 1 to 255 characters, without control characters and without spaces at either end.",
}
TEXT: Schema = {"type": "string", "maxLength": 65535}
NULLABLE_TEXT: Schema = {"type": ["string", "null"], "maxLength": 65535}
UUID: Schema = {"type": "string", "format": "uuid"}
# Old clients send booleans as words and numbers; read the value with validation.as_boolean().
BOOLEAN: Schema = {
    "enum": [True, False, "True", "true", "TRUE", "1", "on", "yes", "False", "false", "FALSE", "0", "off", "no"],
    "x-fix": "It must be true or false.",
}
# Numbers may be sent as strings; read the value with int().
POSITIVE_INTEGER: Schema = {
    "type": ["integer", "string"],
    "pattern": r"^[1-9][0-9]{0,9}\Z",
    "minimum": 1,
    "maximum": 2**31 - 1,
}
NON_NEGATIVE_INTEGER: Schema = {
    "type": ["integer", "string"],
    "pattern": r"^[0-9]{1,10}\Z",
    "minimum": 0,
    "maximum": 2**31 - 1,
}


def closed(properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """Return an object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def wrapped(name: str, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """`{"<name>": {…}}`: the form of most bodies."""
    return closed({name: closed(properties, required=required)}, required=(name,))
