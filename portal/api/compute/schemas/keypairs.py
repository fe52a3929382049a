"""Bodies of requests about key pairs, per version."""

from __future__ import annotations

from functools import cache

from conductor.core.messages import message
from portal.api.microversions import Microversion
from portal.api.schema_parts import Schema, wrapped


def _name(pattern: str, words: str) -> Schema:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": rf"^(?! )[{pattern}]+(?<! )$",
        "x-fix": message("invalid.name", characters=words),
    }


@cache
def create(version: Microversion) -> Schema:
    """POST /os-keypairs."""
    has_signs = version.covers("2.92")
    members: Schema = {
        "name": _name("a-zA-Z0-9 ._@-", "letters, digits, spaces and ._@-")
        if has_signs
        else _name("a-zA-Z0-9 _-", "letters, digits, spaces and _-"),
        "public_key": {"type": "string", "minLength": 0 if not has_signs else 1, "maxLength": 16384},
    }
    if version.covers("2.2"):
        members["type"] = {"enum": ["ssh", "x509"]}
    if version.covers("2.10"):
        members["user_id"] = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]+$"}
    return wrapped("keypair", members, required=("name", "public_key") if has_signs else ("name",))
