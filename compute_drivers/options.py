"""Parses the options that a host gives its driver into a typed frozen dataclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from conductor.core.errors import Invalid

T = TypeVar("T")


def option(default: Any = MISSING, *, least: float | None = None, choices: Sequence[str] = ()) -> Any:
    """Return a dataclass field for an option; `least` is the lowest number, `choices` are the allowed texts."""
    return field(default=default, metadata={"least": least, "choices": tuple(choices)})


def parse(cls: type[T], given: Mapping[str, Any], driver: str) -> T:
    """Return `cls` filled from `given`. Raises Invalid for unknown, missing or wrong options, naming them."""
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise Invalid(f"Driver {driver} has no option {name!r}. It has: {', '.join(sorted(known))}.")
    for name, item in known.items():
        if item.default is MISSING and item.default_factory is MISSING and name not in given:
            raise Invalid(f"Driver {driver} needs the option {name!r}.")
    kinds = get_type_hints(cls)
    return cls(**{name: _checked(f"{driver}.{name}", known[name], kinds[name], given[name]) for name in given})


def _checked(name: str, item: Field[Any], kind: Any, value: Any) -> Any:
    what, convert = KINDS[kind]
    try:
        converted = convert(value)
    except (TypeError, ValueError):
        raise Invalid(f"Option {name}: {value!r} is not {what}.") from None
    least, choices = item.metadata.get("least"), item.metadata.get("choices")
    if converted is not None and least is not None and converted < least:
        raise Invalid(f"Option {name}: {value!r} is less than {least:g}.")
    if choices and converted not in choices:
        raise Invalid(f"Option {name}: {value!r} is not one of {', '.join(choices)}.")
    return converted


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise TypeError
    return Path(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


# Type of a field → its name in errors, and the conversion, which raises TypeError or ValueError.
KINDS: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    bool: ("true or false", _yes_or_no),
    int: ("a whole number", _whole),
    int | None: ("a whole number", _or_none(_whole)),
    float: ("a number", _number),
    float | None: ("a number", _or_none(_number)),
    str: ("a text", _text),
    Path: ("a path", _path),
    Path | None: ("a path", _or_none(_path)),
    Mapping[str, Any]: ("a mapping", _mapping),
}
