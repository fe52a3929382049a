"""Shapes of answers as JSON Schema, taken from the values that services give: what is added there is in the schema too.

A shape is written as

    str, int, float, bool, datetime, Decimal, Any, X | None, list[X], Mapping[str, X], a dataclass  as annotated
    {"name": shape, "links?": shape}                                       an object with these fields; ? may be missing
    [shape]                                                                a list
    Part("Workflow", RunView, {"links": LINKS}, without=("steps",))        a dataclass as a view alters it, by name
    Ref("Workflow")                                                        the same again
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]
PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    Decimal: {"type": "string", "format": "decimal"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}
LISTS = (list, tuple, set, frozenset, Sequence, Collection)


@dataclass(frozen=True)
class Ref:
    """A part that has been described under this name."""

    name: str


@dataclass(frozen=True, eq=False)
class Part:
    """A dataclass as an answer shows it: some fields are added or replaced, some left out."""

    name: str
    of: type
    plus: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


class Parts:
    """Named parts that shapes refer to; `prefix` is where they will stand."""

    def __init__(self, register: Callable[[str, Schema], None], prefix: str = "#/components/schemas/") -> None:
        self._register, self._prefix = register, prefix
        self._known: set[str] = set()

    def schema(self, shape: Any) -> Schema:
        """The schema of a shape; the parts that it names are registered."""
        if isinstance(shape, Ref):
            return {"$ref": self._prefix + shape.name}
        if isinstance(shape, Part):
            return self._part(shape)
        if isinstance(shape, dict):
            return self._object(shape)
        if isinstance(shape, list):
            return {"type": "array", "items": self.schema(shape[0])}
        return self._annotation(shape)

    def _object(self, shape: Mapping[str, Any]) -> Schema:
        return {
            "type": "object",
            "properties": {name.removesuffix("?"): self.schema(value) for name, value in shape.items()},
            "required": [name for name in shape if not name.endswith("?")],
            "additionalProperties": False,
        }

    def _part(self, part: Part) -> Schema:
        if part.name not in self._known:
            self._known.add(part.name)  # before its fields, which may hold it
            hints = get_type_hints(part.of)
            own = {one.name: hints[one.name] for one in fields(part.of)}
            shape = {name: hint for name, hint in own.items() if name not in part.without} | dict(part.plus)
            text = (part.of.__doc__ or "").strip().split("\n\n")[0]
            self._register(part.name, {**self._object(shape), "description": " ".join(text.split())})
        return {"$ref": self._prefix + part.name}

    def _annotation(self, hint: Any) -> Schema:
        if hint in PLAIN:
            return dict(PLAIN[hint])
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.schema(one) for one in arguments]}
        if origin in LISTS:
            return {"type": "array", "items": self.schema(arguments[0])}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if is_dataclass(hint) and isinstance(hint, type):
            return self._part(Part(hint.__name__.removesuffix("View"), hint))
        if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
            return {"type": "string", "enum": [one.value for one in hint]}
        raise TypeError(f"no schema for {hint!r}")
