"""Bodies and queries about providers, their aggregates and traits, and resource classes."""

from __future__ import annotations

from portal.api.placement.schemas.parts import AGGREGATES, CUSTOM, GENERATION, TEXT, UUID, SchemaTable
from portal.api.schema_parts import Schema, closed, named

_NAME: Schema = named({"type": "string", "maxLength": 200})
_PARENT: Schema = {"type": ["string", "null"], "format": "uuid"}
TRAIT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}

CREATE: SchemaTable = (
    ("1.0", closed({"name": _NAME, "uuid": UUID}, required=("name",))),
    ("1.14", closed({"name": _NAME, "uuid": UUID, "parent_provider_uuid": _PARENT}, required=("name",))),
)
UPDATE: SchemaTable = (
    ("1.0", closed({"name": _NAME}, required=("name",))),
    ("1.14", closed({"name": _NAME, "parent_provider_uuid": _PARENT}, required=("name",))),
)
LIST: SchemaTable = (
    ("1.0", closed({"name": TEXT, "uuid": UUID})),
    ("1.3", closed({"name": TEXT, "uuid": UUID, "member_of": TEXT})),
    ("1.4", closed({"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT})),
    ("1.14", closed({"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT, "in_tree": UUID})),
    (
        "1.18",
        closed(
            {"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT, "in_tree": UUID, "required": TEXT},
        ),
    ),
)
SET_AGGREGATES: SchemaTable = (
    ("1.1", AGGREGATES),
    (
        "1.19",
        closed(
            {"aggregates": AGGREGATES, "resource_provider_generation": GENERATION},
            required=("aggregates", "resource_provider_generation"),
        ),
    ),
)
SET_TRAITS = closed(
    {"traits": {"type": "array", "items": TRAIT}, "resource_provider_generation": GENERATION},
    required=("traits", "resource_provider_generation"),
)
CUSTOM_TRAIT: Schema = {**TRAIT, "pattern": CUSTOM}
LIST_TRAITS = closed({"name": TEXT, "associated": TEXT})
RESOURCE_CLASS = closed(
    {"name": {"type": "string", "pattern": CUSTOM, "maxLength": 255}},
    required=("name",),
)
