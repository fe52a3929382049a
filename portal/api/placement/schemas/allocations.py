"""Bodies of allocations: of one consumer, of several, and with inventories; and the query of usages."""

from __future__ import annotations

from portal.api.placement.schemas import inventories
from portal.api.placement.schemas.candidates import NAMED_GROUP
from portal.api.placement.schemas.parts import CLASS_OR_TRAIT, OWNER, UUID, UUID_KEY, SchemaTable, by_key
from portal.api.schema_parts import Schema, closed

_RESOURCES = by_key(CLASS_OR_TRAIT, {"type": "integer", "minimum": 1}, least=1)
_LISTED: Schema = {
    "type": "array",
    "minItems": 1,
    "items": closed(
        {"resource_provider": closed({"uuid": UUID}, required=("uuid",)), "resources": _RESOURCES},
        required=("resource_provider", "resources"),
    ),
}
_CONSUMER_TYPE: Schema = {"type": "string", "pattern": CLASS_OR_TRAIT, "minLength": 1, "maxLength": 255}
_GROUP_KEY = rf"^{NAMED_GROUP}\Z"
_MAPPINGS: Schema = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {_GROUP_KEY: {"type": "array", "minItems": 1, "items": UUID}},
}


def _by_provider(least: int) -> Schema:
    one = closed({"generation": {"type": "integer"}, "resources": _RESOURCES}, required=("resources",))
    return by_key(UUID_KEY, one, least=least)


def _by_consumer(one: Schema, least: int = 1) -> Schema:
    return by_key(UUID_KEY, one, least=least)


_OWNED: Schema = {"project_id": OWNER, "user_id": OWNER}
_NEEDED = ("allocations", "project_id", "user_id")
_DELETABLE: Schema = {"allocations": _by_provider(0), **_OWNED}
_GENERATED: Schema = {**_DELETABLE, "consumer_generation": {"type": ["integer", "null"]}}
_MAPPED: Schema = {**_GENERATED, "mappings": _MAPPINGS}
_TYPED: Schema = {**_MAPPED, "consumer_type": _CONSUMER_TYPE}
_NEEDED_1_28 = (*_NEEDED, "consumer_generation")

_V1_13 = closed(_DELETABLE, required=_NEEDED)
_V1_28 = closed(_GENERATED, required=_NEEDED_1_28)
_V1_34 = closed(_MAPPED, required=_NEEDED_1_28)
_V1_38 = closed(_TYPED, required=(*_NEEDED_1_28, "consumer_type"))

ONE_CONSUMER: SchemaTable = (
    ("1.0", closed({"allocations": _LISTED}, required=("allocations",))),
    ("1.8", closed({"allocations": _LISTED, **_OWNED}, required=_NEEDED)),
    ("1.12", closed({"allocations": _by_provider(1), **_OWNED}, required=_NEEDED)),
    ("1.28", _V1_28),
    ("1.34", _V1_34),
    ("1.38", _V1_38),
)
SEVERAL_CONSUMERS: SchemaTable = (
    ("1.13", _by_consumer(_V1_13)),
    ("1.28", _by_consumer(_V1_28)),
    ("1.34", _by_consumer(_V1_34)),
    ("1.38", _by_consumer(_V1_38)),
)


def _reshape(one: Schema) -> Schema:
    provided = by_key(UUID_KEY, inventories.ALL, least=1)
    both = {"inventories": provided, "allocations": _by_consumer(one, 0)}
    return closed(both, required=("inventories", "allocations"))


RESHAPE: SchemaTable = (("1.30", _reshape(_V1_28)), ("1.34", _reshape(_V1_34)), ("1.38", _reshape(_V1_38)))

_TYPE_OR_ALL: Schema = {**_CONSUMER_TYPE, "pattern": rf"{CLASS_OR_TRAIT}|^all\Z|^unknown\Z"}
USAGES: SchemaTable = (
    ("1.9", closed(_OWNED, required=("project_id",))),
    ("1.38", closed({**_OWNED, "consumer_type": _TYPE_OR_ALL}, required=("project_id",))),
)
