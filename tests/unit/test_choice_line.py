"""The line about the best host, its lead, and the scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from conductor.services.scheduling.types import DecisionView
from portal.pages.scheduling.placement import explain


def view(totals: dict[str, float], **more: Any) -> DecisionView:
    weights = [{"host": host, "total": total, "parts": []} for host, total in totals.items()]
    values: dict[str, Any] = {"seed": 7741, "snapshot_age_seconds": 0.4, "num_instances": 1, "funnel": [], "advice": []}
    return DecisionView(
        "d-1", "r-1", is_successful=True, created_at=datetime(2026, 1, 1, tzinfo=UTC), weights=weights, **values, **more
    )


@pytest.mark.parametrize(
    ("totals", "more", "line"),
    [
        ({"a": 1.0}, {}, "a, score 1.00."),
        ({"a": 2.0, "b": 1.5}, {}, "a, score 2.00; next b 1.50 (25.0 %)."),
        (
            {"a": 1.0, "b": 1.0, "c": 0.5},
            {},
            "a, score 1.00; 1 other host has the same weight; one was selected at random; next c 0.50 (50.0 %).",
        ),
        (
            {"a": 0.0, "b": 0.0, "c": 0.0},
            {},
            "a, score 0.00; 2 other hosts have the same weight; one was selected at random.",
        ),
        ({"a": 0.0, "b": -1.0}, {}, "a, score 0.00; next b -1.00."),
        ({"a": 1.0, "b": 0.9999}, {}, "a, score 1.00; next b 1.00."),
        (
            {"a": 1.0},
            {"drawn_among": 3, "milliseconds": 1.25, "scheduler": "rack-1:7:1a2b3c4d"},
            "a, score 1.00; selected at random from the best 3; decided in 1.2 ms; by scheduler rack-1:7:1a2b3c4d.",
        ),
    ],
)
def test_a_choice_is_summarized_in_a_line(totals: dict[str, float], more: dict[str, Any], line: str) -> None:
    assert explain(view(totals, **more))["choice"] == f"Highest weight: {line}"
