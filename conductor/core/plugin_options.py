"""Options of filters and weighers: each is declared with a JSON schema and a default, and set by the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OptionsSchema = Mapping[str, Mapping[str, Any]]


def with_defaults(schema: OptionsSchema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each declared option; other given values are ignored."""
    return {name: given.get(name, rule["default"]) for name, rule in schema.items()}
