"""Bodies of inventories."""

from __future__ import annotations

from portal.api.placement.schemas.parts import CLASS_OR_TRAIT, GENERATION, LARGEST_RATIO, by_key, number
from portal.api.schema_parts import Schema, closed

_AMOUNT: Schema = {
    "resource_provider_generation": GENERATION,
    "total": number(1),
    "reserved": number(0),
    "min_unit": number(1),
    "max_unit": number(1),
    "step_size": number(1),
    "allocation_ratio": {"type": "number", "maximum": LARGEST_RATIO},
}
ONE = closed(_AMOUNT, required=("total", "resource_provider_generation"))
NEW = closed(
    {**_AMOUNT, "resource_class": {"type": "string", "pattern": CLASS_OR_TRAIT}}, required=("total", "resource_class")
)
ALL = closed(
    {
        "resource_provider_generation": GENERATION,
        "inventories": by_key(CLASS_OR_TRAIT, closed(_AMOUNT, required=("total",))),
    },
    required=("resource_provider_generation", "inventories"),
)
