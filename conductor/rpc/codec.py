"""Messages to JSON and back: frozen dataclasses, each with a name and a version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform

from conductor.core.errors import Invalid
from conductor.core.plain_json import field_names, known_fields

M = TypeVar("M")
_types: dict[str, tuple[type[Any], tuple[int, int]]] = {}


class UnknownMessage(Invalid):
    """The message is newer than this process; it must be kept for one that understands it."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def message(name: str, *, version: str) -> Callable[[type[M]], type[M]]:
    """Register a frozen dataclass as a wire message. `version` is "major.minor"."""
    major, minor = (int(part) for part in version.split("."))

    def register(cls: type[M]) -> type[M]:
        frozen = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
        _types[name] = (frozen, (major, minor))
        frozen.MESSAGE_NAME = name  # type: ignore[attr-defined]
        return frozen

    return register


def encode(body: Any) -> dict[str, Any]:
    """Return a message as JSON values: {"message", "version", "body"}."""
    cls, version = _types[body.MESSAGE_NAME]
    return {
        "message": body.MESSAGE_NAME,
        "version": f"{version[0]}.{version[1]}",
        "body": {name: getattr(body, name) for name in field_names(cls)},
    }


def decode(data: Mapping[str, Any]) -> Any:
    """Return the message that `data` encodes.

    Unknown fields of a newer minor version are dropped. Raises UnknownMessage for a newer major version or an unknown
    name.
    """
    name, version = data["message"], tuple(int(part) for part in data["version"].split("."))
    known = _types.get(name)
    if known is None or version[0] > known[1][0]:
        raise UnknownMessage(f"Message {name} {data['version']} is not known here.")
    return known[0](**known_fields(known[0], data["body"]))


def registered() -> dict[str, tuple[type[Any], tuple[int, int]]]:
    """Return all messages by name, with their class and version."""
    return dict(_types)
