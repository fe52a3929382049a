"""Cases worked out by hand, compared with the scheduler's decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from conductor.core.scheduling.cases import BuiltinPlugins, answers_of, read
from tests.unit.scheduling.fleets import SHIPPED

FOLDER = Path(__file__).parent / "cases"
KINDS = BuiltinPlugins([type(one) for one in SHIPPED.loaded_filters], [type(one) for one in SHIPPED.loaded_weighers])


def _cases() -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    """Yield each case of each file: its name, the case, and its requests with what is expected of each."""
    for path in sorted(FOLDER.glob("*.json")):
        text = path.read_text()
        written = {case["name"]: case["requests"] for case in json.loads(text)["cases"]}
        for case in read(text):
            yield f"{path.stem}: {case.name}", case, written[case.name]


CASES = {name: (case, requests) for name, case, requests in _cases()}


@cache
def answers(name: str) -> list[dict[str, Any]]:
    """Return the answers to the requests of a case. Tests ask for them: each process that runs tests loads this."""
    case, requests = CASES[name]
    found = list(answers_of(case, KINDS))
    assert len(found) == len(requests)
    return found


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


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, id=f"{name}: {request['name']}")
        for name, (_, requests) in CASES.items()
        for number, request in enumerate(requests)
    ],
)
def test_a_case_is_decided_as_it_was_worked_out(name: str, number: int) -> None:
    expected, answer = CASES[name][1][number]["expect"], answers(name)[number]
    for key, value in expected.items():
        if key == "rejects":
            found = {one: answer["filters"][one]["rejects"] for one in value}
            assert found == value
            assert all(answer["filters"][one]["errors"] == {} for one in value)
        else:
            assert seen(key, answer) == value
    if "error" not in expected and answer["rounds"] and "rejects" not in expected and "offered" not in expected:
        assert answer["selections"]


def test_a_reason_is_given_for_every_host_that_a_filter_turns_away() -> None:
    for answer in chain.from_iterable(map(answers, CASES)):
        for verdicts in answer["filters"].values():
            assert set(verdicts["reasons"]) == set(verdicts["rejects"])
            assert all(verdicts["reasons"].values())


def test_there_are_at_least_a_few_hundred_cases() -> None:
    assert sum(len(requests) for _, requests in CASES.values()) > 200
