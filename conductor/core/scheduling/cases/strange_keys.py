"""Finds keys of a case that the format does not have, to warn its author: they are ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conductor.core.scheduling.cases import schema


def strange_keys(case: Mapping[str, Any]) -> list[str]:
    """Return their paths, such as hosts[2].resources.PCPU.speed."""
    return [path.removeprefix(".") for path in _strange(schema.CASE, case, "")]


def _strange(rule: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    for choice in rule.get("anyOf", ()):
        yield from _strange(choice, value, path)
    if isinstance(value, dict) and rule.get("type") == "object":
        properties, others = rule.get("properties"), rule.get("additionalProperties", {})
        for key, inner in value.items():
            if properties is not None and key not in properties:
                yield f"{path}.{key}"
            else:
                yield from _strange((properties or {}).get(key, others), inner, f"{path}.{key}")
    if isinstance(value, list) and rule.get("type") == "array":
        for index, inner in enumerate(value):
            yield from _strange(rule.get("items", {}), inner, f"{path}[{index}]")
