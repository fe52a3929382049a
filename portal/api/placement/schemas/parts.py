"""Parts of placement's schemas. A table lists the schemas of a body or query, each with its first version."""

from __future__ import annotations

from portal.api.schema_parts import Schema

SchemaTable = tuple[tuple[str, Schema], ...]

CLASS_OR_TRAIT = r"^[A-Z0-9_]+\Z"
CUSTOM = r"^CUSTOM_[A-Z0-9_]+\Z"
UUID_KEY = r"^[0-9a-fA-F-]{36}\Z"
MOST = 2**31 - 1
LARGEST_RATIO = 3.40282e38  # the maximum of single-precision columns in other clouds

TEXT: Schema = {"type": "string"}
UUID: Schema = {"type": "string", "format": "uuid"}
GENERATION: Schema = {"type": "integer"}
OWNER: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
AGGREGATES: Schema = {"type": "array", "items": UUID, "uniqueItems": True}


def number(least: int) -> Schema:
    """Return a whole number from `least` on."""
    return {"type": "integer", "minimum": least, "maximum": MOST}


def by_key(pattern: str, value: Schema, *, least: int = 0) -> Schema:
    """Return an object whose keys all match `pattern`, with at least so many of them."""
    keys = {"patternProperties": {pattern: value}, "additionalProperties": False}
    return {"type": "object", "minProperties": least, **keys}
