"""Queries for allocation candidates: parameters and names of groups, by version."""

from __future__ import annotations

from conductor.core.messages import message
from portal.api.placement.schemas.parts import TEXT, SchemaTable
from portal.api.schema_parts import Schema, closed

NUMBERED_GROUP = "[1-9][0-9]*"
NAMED_GROUP = "[a-zA-Z0-9_-]{1,64}"

_LIMIT: Schema = {"type": "string", "pattern": r"^[1-9][0-9]*\Z", "x-fix": message("invalid.whole_least", least=1)}
_POLICY: Schema = {"type": "string", "enum": ["none", "isolate"]}
_GROUPED = ("resources", "required", "member_of")


def _in_groups(names: tuple[str, ...], suffix: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"limit": _LIMIT, "group_policy": _POLICY, **properties},
        "patternProperties": {rf"^{name}({suffix})?$": TEXT for name in names},
        "additionalProperties": False,
    }


LIST: SchemaTable = (
    ("1.10", closed({"resources": TEXT}, required=("resources",))),
    ("1.16", closed({"resources": TEXT, "limit": _LIMIT}, required=("resources",))),
    ("1.17", closed({"resources": TEXT, "limit": _LIMIT, "required": TEXT}, required=("resources",))),
    (
        "1.21",
        closed({"resources": TEXT, "limit": _LIMIT, "required": TEXT, "member_of": TEXT}, required=("resources",)),
    ),
    ("1.25", _in_groups(_GROUPED, NUMBERED_GROUP)),
    ("1.31", _in_groups((*_GROUPED, "in_tree"), NUMBERED_GROUP)),
    ("1.33", _in_groups((*_GROUPED, "in_tree"), NAMED_GROUP)),
    ("1.35", _in_groups((*_GROUPED, "in_tree"), NAMED_GROUP, root_required=TEXT)),
    ("1.36", _in_groups((*_GROUPED, "in_tree"), NAMED_GROUP, root_required=TEXT, same_subtree=TEXT)),
)
