"""Cases worked out by hand, compared with the scheduler's decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.core.scheduling.cases import BuiltinPlugins, answers_of, read
from tests.unit.scheduling.fleets import SHIPPED

FOLDER = Path(__file__).parent / "cases"
KINDS = BuiltinPlugins([type(one) for one in SHIPPED.loaded_filters], [type(one) for one in SHIPPED.loaded_weighers])


def answered() -> Iterator[Any]:
    """Yield every request of every file with what is expected of it, and its answer."""
    for path in sorted(FOLDER.glob("*.json")):
        text = path.read_text()
        written = {case["name"]: case["requests"] for case in json.loads(text)["cases"]}
        for case in read(text):
            for request, answer in zip(written[case.name], answers_of(case, KINDS), strict=True):
                yield pytest.param(request["expect"], answer, id=f"{path.stem}: {case.name}: {request['name']}")


def seen(key: str, answer: dict[str, Any]) -> Any:
    """Return an answer's value for an expected key."""
    chosen = answer["selections"] or []
    return {
        "offered": lambda: [requested["hosts"] for requested in answer["placement"]],
        "hosts": lambda: [one["host"] for one in chosen],
        "alternates": lambda: [one["alternates"] for one in chosen],
        "survivors": lambda: [one["survivors"] for one in answer["rounds"]],
        "rounds": lambda: len(answer["rounds"]),
        "order": lambda: [[host, pytest.approx(weight)] for host, weight in answer["rounds"][0]["order"]],
        "error": lambda: answer.get("error"),
    }[key]()


@pytest.mark.parametrize(("expected", "answer"), list(answered()))
def test_a_case_is_decided_as_it_was_worked_out(expected: dict[str, Any], answer: dict[str, Any]) -> None:
    for key, value in expected.items():
        if key == "rejects":
            found = {name: answer["filters"][name]["rejects"] for name in value}
            assert found == value
            assert all(answer["filters"][name]["errors"] == {} for name in value)
        else:
            assert seen(key, answer) == value
    if "error" not in expected and answer["rounds"] and "rejects" not in expected and "offered" not in expected:
        assert answer["selections"]


def test_a_reason_is_given_for_every_host_that_a_filter_turns_away() -> None:
    for param in answered():
        _, answer = param.values
        for verdicts in answer["filters"].values():
            assert set(verdicts["reasons"]) == set(verdicts["rejects"])
            assert all(verdicts["reasons"].values())


def test_there_are_at_least_a_few_hundred_cases() -> None:
    assert len(list(answered())) > 200
