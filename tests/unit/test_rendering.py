"""Answers as JSON: fast where values are plain, and never another value than the framework's own renderer writes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.utils.translation import gettext_lazy
from rest_framework.renderers import JSONRenderer

from portal.api.base import ApiView
from portal.api.rendering import JsonRenderer


class State(StrEnum):
    ACTIVE = "active"


class Address(NamedTuple):
    version: int
    text: str


ID = UUID("6b9f4dbb-6c5c-4b3c-8d5c-0a3d3a6f5a11")
VALUES: dict[str, Any] = {
    "text": {"name": "Zürich ☃ 𝄞", "line": "a\u2028b\u2029c", "quoted": 'a"b\\c\n\x01'},
    "numbers": [0, -1, 2**63, 2**64 - 1, 1.5, 1e300, -0.0, True, None],
    "beyond 64 bits": {"count": 2**64, "debt": -(2**70)},
    "keys that are no text": {1: "one", 2: {None: "nothing"}},
    "times": [datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 12, 0, 0, 7, tzinfo=UTC), date(2026, 1, 31)],
    "spans and parts": [timedelta(seconds=90), Decimal("2.50"), ID, State.ACTIVE],
    "sequences": [("a", "b"), Address(4, "10.0.0.1"), frozenset({7})],
    "a text of the page's language": {"detail": gettext_lazy("Servers")},
}


@pytest.mark.parametrize("name", VALUES)
def test_the_same_values_as_the_frameworks_own(name: str) -> None:
    data = VALUES[name]
    assert json.loads(JsonRenderer().render(data)) == json.loads(JSONRenderer().render(data))


def test_half_of_a_surrogate_pair_is_escaped_and_does_not_end_the_answer() -> None:
    assert json.loads(JsonRenderer().render({"name": "\ud800", "other": "ü"})) == {"name": "\ud800", "other": "ü"}


def test_none_is_an_empty_response_and_unknown_types_are_refused() -> None:
    assert JsonRenderer().render(None) == b""
    with pytest.raises(TypeError):
        JsonRenderer().render({"view": object()})


def test_every_api_answers_by_it_without_spaces() -> None:
    assert list(ApiView.renderer_classes) == [JsonRenderer]
    assert JsonRenderer().render({"a": [1, 2]}, "application/json; indent=4") == b'{"a":[1,2]}'
