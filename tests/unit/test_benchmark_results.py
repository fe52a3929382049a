"""Results of benchmarks: the page is what the stored figures make it, and a missed bar is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.results import Figure


def test_the_page_is_generated_from_the_stored_figures() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page(), "Run: python -m benchmarks.results"


def test_every_figure_names_its_commit_and_date() -> None:
    goals = [results.load(path) for path in results.FOLDER.glob("*.json")]
    assert len(goals) == len({goal.order for goal in goals}) > 20
    bare = [(goal.goal, one.figure) for goal in goals for one in goal.figures if not (one.commit and one.date)]
    assert bare == []
    assert [one.figure for goal in goals for one in goal.figures if one.bar and not one.limit] == []


@pytest.mark.parametrize(
    ("ratio", "bar", "is_met"),
    [
        (1.0, "≤ 1", True),
        (1.01, "≤ 1", False),
        (40, "≥ 40", True),
        (39.9, "≥ 40", False),
        (None, "0", True),
        (9, "", True),
    ],
)
def test_a_bar_is_met_or_missed(ratio: float | None, bar: str, is_met: bool) -> None:
    assert Figure("x", "", "", ratio, bar).is_met is is_met


def test_a_recorded_figure_replaces_the_one_of_the_same_name_and_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [
        {
            "figure": "p50",
            "measured": "9 ms",
            "limit": "peer, 3 ms",
            "ratio": 3,
            "bar": "≤ 2",
            "commit": "1",
            "date": "2",
        },
        {"figure": "p50", "measured": "9 ms", "limit": "10 ms", "ratio": 0.9, "bar": "≤ 1", "commit": "1", "date": "2"},
    ]
    path = tmp_path / "pages.json"
    path.write_text(json.dumps({"order": 1, "goal": "Pages", "command": "run", "figures": old}))
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "_commit", lambda: "abc")
    monkeypatch.setenv(results.RECORDING, "1")
    assert "| p50 | 9 ms | peer, 3 ms | **3** | ≤ 2 | 1 | 2 |" in results.page()

    results.record("pages", [Figure("p50", "4 ms", "peer, 4 ms", 1.0, "≤ 2")])

    first, second = results.load(path).figures
    assert (first.measured, first.commit, second.measured, second.commit) == ("4 ms", "abc", "9 ms", "1")
    assert f"| p50 | 4 ms | peer, 4 ms | 1 | ≤ 2 | abc | {first.date} |" in results.page()
