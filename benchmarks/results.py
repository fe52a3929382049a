"""Stores the last figures of the benchmarks in `results/*.json`, and writes RESULTS.md from them.

`python -m benchmarks.results` writes the page. Benchmarks store their figures with `record` if `make bench` runs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = FOLDER.parent / "RESULTS.md"
HEAD = """# Benchmark results

This page lists the last figure of each goal. `make bench` writes it from `benchmarks/results/*.json`; do not edit it.
A ratio compares two figures of one run on one machine, because absolute times depend on the machine. The bar says what
the ratio must be; a missed bar is bold.
"""
COLUMNS = ("figure", "measured", "limit or peer", "ratio", "bar", "commit", "date")
AT_LEAST, AT_MOST = "≥", "≤"
RECORDING = "BENCH_RECORD"  # set by `make bench`: manual runs, which may be smaller or disturbed, store nothing


@dataclass(frozen=True)
class Figure:
    """A measured figure. `ratio` compares it with `limit`; `bar` is such as `≤ 1.2` or `≥ 40`, or empty."""

    figure: str
    measured: str
    limit: str = ""
    ratio: float | None = None
    bar: str = ""
    commit: str = ""
    date: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure meets its bar; true without a bar."""
        kind, _, bound = self.bar.partition(" ")
        if self.ratio is None or kind not in (AT_LEAST, AT_MOST):
            return True
        return self.ratio >= float(bound) if kind == AT_LEAST else self.ratio <= float(bound)


@dataclass(frozen=True)
class Goal:
    """A table of the page."""

    order: int
    goal: str
    command: str
    figures: tuple[Figure, ...]


def load(path: Path) -> Goal:
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Goal(**{**stored, "figures": tuple(Figure(**figure) for figure in stored["figures"])})


def record(name: str, figures: Iterable[Figure]) -> None:
    """Store figures of this commit in `results/<name>.json`. Each replaces the one with the same name and peer."""
    if RECORDING not in os.environ:
        return
    path = FOLDER / f"{name}.json"
    goal, today = load(path), f"{datetime.now(UTC):%Y-%m-%d}"
    kept = {_key(figure): figure for figure in goal.figures}
    for figure in figures:
        kept[_key(figure)] = Figure(**{**asdict(figure), "commit": _commit(), "date": today})
    stored = {**asdict(goal), "figures": [asdict(figure) for figure in kept.values()]}
    path.write_text(json.dumps(stored, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def page() -> str:
    """Return RESULTS.md from the stored figures."""
    goals = sorted((load(path) for path in FOLDER.glob("*.json")), key=lambda goal: goal.order)
    return "\n".join([HEAD, *(_section(goal) for goal in goals)])


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def _key(figure: Figure) -> tuple[str, str]:
    return figure.figure, figure.limit.partition(",")[0]


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True).stdout.strip()


def _section(goal: Goal) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(_row(figure) for figure in goal.figures)]
    return "\n".join([f"## {goal.goal}\n\n`{goal.command}`\n", *(f"| {' | '.join(row)} |" for row in rows), ""])


def _row(figure: Figure) -> tuple[str, ...]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:,g}"
    shown = ratio if figure.is_met else f"**{ratio}**"
    return figure.figure, figure.measured, figure.limit, shown, figure.bar, figure.commit, figure.date


if __name__ == "__main__":
    write()
    sys.exit(0)
