"""Read-only mappings and lists, for plugins."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def _refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("plugins must not change what they are given")


class FrozenDict(dict[Any, Any]):
    """Read-only dict; it is equal to a plain one of the same content."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refused
    clear = pop = popitem = setdefault = update = _refused

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: Any) -> FrozenDict:
        return self


class FrozenList(list[Any]):
    """Read-only list; it is equal to a plain one of the same content."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refused
    append = clear = extend = insert = pop = remove = reverse = sort = _refused

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: Any) -> FrozenList:
        return self


_READ_ONLY = frozenset({FrozenDict, FrozenList, str, int, float, bool, bytes, frozenset, type(None)})


def frozen(value: Any) -> Any:
    """Return the value with every mapping, list and set inside it made read-only; itself if nothing has to change."""
    if type(value) in _READ_ONLY:
        return value
    if isinstance(value, Mapping):
        if _READ_ONLY.issuperset(map(type, value.values())):
            return FrozenDict(value)
        return FrozenDict((key, frozen(part)) for key, part in value.items())
    if isinstance(value, list):
        return FrozenList(value if _READ_ONLY.issuperset(map(type, value)) else map(frozen, value))
    if isinstance(value, set):
        return frozenset(value)
    if type(value) is tuple:
        parts = tuple(map(frozen, value))
        return value if all(map(operator.is_, parts, value)) else parts
    return sealed(value) if is_dataclass(value) and not isinstance(value, type) else value


def sealed(value: T) -> T:
    """Return a frozen dataclass with its fields, and theirs, made read-only."""
    changed = {}
    for name in _names_of(type(value)):  # type: ignore[arg-type]
        now = getattr(value, name)
        if type(now) not in _READ_ONLY:
            new = frozen(now)
            if new is not now:
                changed[name] = new
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


@functools.cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
