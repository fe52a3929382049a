"""Conversion of values to plain JSON, and cached field names of dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_ATOMS = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Convert `value` to JSON values, as a copy: dataclasses, mappings, lists and tuples, nested in any way.

    Other values are returned as they are. `dataclasses.asdict` checks every value for cases that never occur here.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if kind is list or isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return {name: plain(getattr(value, name)) for name in field_names(kind)} if is_dataclass(value) else value


def field_names(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, in order."""
    names = _names.get(cls)
    if names is None:
        names = _names[cls] = tuple(item.name for item in fields(cls))
    return names


_names: dict[type[Any], tuple[str, ...]] = {}


def known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message that `cls` has: a newer sender may have added some."""
    return {name: data[name] for name in field_names(cls) if name in data}
