"""JSON from clients is read up to a depth that all other code supports, and never raises RecursionError."""

from __future__ import annotations

import json

import pytest

from conductor.core import json_text

MOST = json_text.MOST_LEVELS


@pytest.mark.parametrize(
    "text", ["[" * MOST + "1" + "]" * MOST, '{"a":' * MOST + "{}" + "}" * MOST, "[" + "[]," * 999 + "1]", '"[["']
)
def test_json_within_the_depth_limit_is_read(text: str) -> None:
    assert json_text.loads(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["[" * (MOST + 1) + "1" + "]" * (MOST + 1), '{"a":[' * MOST + "1" + "]}" * MOST, "[" * 100_000]
)
def test_json_beyond_the_depth_limit_is_refused(text: str) -> None:
    with pytest.raises(json_text.TooDeep):
        json_text.loads(text)
