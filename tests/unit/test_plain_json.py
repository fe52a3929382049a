"""Values as plain JSON: equal to `asdict` and a round trip through JSON, and independent of the original."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.plain_json import field_names, known_fields, plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@dataclass(frozen=True, slots=True)
class Inner:
    value: Any
    more: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    inner: Inner
    others: tuple[Inner, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)


@given(VALUES, st.lists(VALUES, max_size=2), st.dictionaries(st.text(max_size=3), VALUES, max_size=2))
def test_plain_values_equal_those_after_a_round_trip_through_json(
    value: Any, more: list[Any], known: dict[str, Any]
) -> None:
    whole = Outer("web-1", Inner(value, tuple(more)), (Inner(value),), known)
    assert plain(whole) == json.loads(json.dumps(asdict(whole)))


def test_plain_values_share_nothing_with_the_original() -> None:
    known: dict[str, Any] = {"list": [1], "map": {"a": 1}}
    made = plain(Outer("web-1", Inner(None), known=known))
    made["known"]["list"].append(2)
    made["known"]["map"]["b"] = 2
    assert known == {"list": [1], "map": {"a": 1}}


def test_fields_that_a_newer_sender_added_are_dropped_and_missing_ones_stay_missing() -> None:
    assert known_fields(Inner, {"value": 1, "newer": 2}) == {"value": 1}
    assert field_names(Outer) == ("name", "inner", "others", "known")
