"""Compact binary snapshots of hosts, so that a decision can be replayed later.

A snapshot has columns instead of rows, stores each distinct value once, and is compressed. It holds only plain values
and the dataclasses of the core, so that reading one executes no foreign code.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import numpy as np

from conductor.core.host_state import HostState

VERSION = 1
LEVEL = 1  # higher levels cost three times the time for a tenth of the size
NAMES = tuple(one.name for one in fields(HostState))


def _classes_in(kind: Any) -> dict[str, type[Any]]:
    """Return the dataclasses that a state may hold, by its fields' annotations."""
    found: dict[str, type[Any]] = {}
    for inner in get_args(kind):
        found |= _classes_in(inner)
    if is_dataclass(kind) and isinstance(kind, type):
        found[kind.__name__] = kind
        for inner in get_type_hints(kind).values():
            found |= _classes_in(inner)
    return found


CLASSES: Mapping[str, type[Any]] = _classes_in(HostState)


class Unreadable(ValueError):
    """The bytes are not a snapshot, or one of a later version."""


@dataclass(frozen=True)
class PackedStates:
    """States by their row in their original table."""

    rows: tuple[int, ...]
    states: tuple[HostState, ...]


def pack(states: Sequence[HostState], rows: Sequence[int] | None = None) -> bytes:
    """Return the states in `rows`, or all, as bytes. Raises TypeError for a value that could not be read back."""
    chosen = range(len(states)) if rows is None else rows
    picked = [states[row] for row in chosen]
    body = {
        "version": VERSION,
        "rows": None if rows is None else [int(row) for row in rows],
        "count": len(picked),
        "columns": {name: _column([getattr(state, name) for state in picked]) for name in NAMES} if picked else {},
    }
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), LEVEL)


def unpack(content: bytes) -> PackedStates:
    """Return the states that `pack` encoded. Fields that a state no longer has are skipped. Raises Unreadable."""
    try:
        body = json.loads(zlib.decompress(bytes(content)))
        if body["version"] != VERSION:
            raise Unreadable(f"version {body['version']} of snapshots is not known")
        columns = {name: _values(column, body["count"]) for name, column in body["columns"].items() if name in NAMES}
    except (zlib.error, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable("these bytes are no snapshot of hosts") from None
    states = tuple(HostState(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))
    rows = body["rows"]
    return PackedStates(tuple(range(len(states))) if rows is None else tuple(rows), states)


def changed_rows(base: Sequence[HostState], now: Sequence[HostState], most: int) -> list[int] | None:
    """Return the rows in which `now` differs from `base`; None where the hosts differ, or more than `most` rows do."""
    if len(base) != len(now):
        return None
    found: list[int] = []
    for row, (before, after) in enumerate(zip(base, now, strict=True)):
        if before is after or before == after:
            continue
        found.append(row)
        if len(found) > most or before.provider_uuid != after.provider_uuid:
            return None
    return found


def _column(values: list[Any]) -> Any:
    """Encode a column as `{"one": v}`, or the distinct values with a code per row, or a value per row."""
    codes: dict[Any, int] = {}
    by_identity: dict[int, int] = {}  # hosts mostly share large values: they are compared once
    distinct: list[Any] = []
    row_codes = []
    for value in values:
        code = by_identity.get(id(value))
        if code is None:
            code = codes.setdefault(_key(value), len(distinct))
            by_identity[id(value)] = code
            if code == len(distinct):
                distinct.append(value)
        row_codes.append(code)
    encoded = [_encoded(value) for value in distinct]
    if len(encoded) == 1:
        return {"one": encoded[0]}
    if len(encoded) * 2 > len(values):
        return {"rows": [encoded[code] for code in row_codes]}
    return {"values": encoded, "codes": row_codes}


def _key(value: Any) -> Any:
    """Return a key that is equal exactly for identical values: 1, 1.0 and True differ."""
    if value is None or isinstance(value, int | float | str):
        return type(value), value
    if not value:
        return type(value)
    return json.dumps(_encoded(value), sort_keys=True)


def _values(column: Mapping[str, Any], count: int) -> list[Any]:
    if "one" in column:
        return [_decoded(column["one"])] * count
    if "rows" in column:
        return [_decoded(value) for value in column["rows"]]
    distinct = [_decoded(value) for value in column["values"]]
    return [distinct[code] for code in column["codes"]]


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in CLASSES and is_dataclass(value):
        return {"d": type(value).__name__, "f": {f.name: _encoded(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {"m": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, set | frozenset):
        return {"s": sorted((_encoded(item) for item in value), key=repr)}
    if isinstance(value, tuple):
        return {"t": [_encoded(item) for item in value]}
    if isinstance(value, list):
        return {"l": [_encoded(item) for item in value]}
    raise TypeError(f"{type(value).__name__} cannot be kept in a snapshot")


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "d" in value:
        kind = CLASSES[value["d"]]
        known = {one.name for one in fields(kind)}
        return kind(**{name: _decoded(item) for name, item in value["f"].items() if name in known})
    ((tag, items),) = value.items()
    return DECODERS[tag](items)


DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "m": lambda items: {_decoded(key): _decoded(item) for key, item in items},
    "s": lambda items: frozenset(_decoded(item) for item in items),
    "t": lambda items: tuple(_decoded(item) for item in items),
    "l": lambda items: [_decoded(item) for item in items],
}
