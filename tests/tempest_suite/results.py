"""Results of a run of the suite: by class, and compared with the known failures."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

KNOWN = Path(__file__).parent / "known_failures.txt"
OUTCOMES = ("success", "fail", "skip")
BY_SET_UP = re.compile(r"\A(?:setUpClass|tearDownClass) \((?P<name>[\w.]+)\)\Z")


def read(text: str) -> dict[str, str]:
    """Return the outcome of each test; `text` has one a line: name, tab, outcome."""
    lines = (line.partition("\t") for line in text.splitlines() if "\t" in line)
    return {plain(name): outcome if outcome in OUTCOMES else "fail" for name, _, outcome in lines}


def plain(name: str) -> str:
    """Return a test's name without its attributes; that of a class for what is set up for it."""
    found = BY_SET_UP.match(name)
    return found["name"] if found else name.partition("[")[0]


def class_of(name: str) -> str:
    """Return the class of a test, without the name of the suite."""
    words = name.removeprefix("tempest.api.").split(".")
    return ".".join(words[:-1] if words[-1].startswith("test") else words)


def table(outcomes: Mapping[str, str]) -> list[str]:
    """Return a line for each class, with the numbers of its tests by outcome; those with failures first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in outcomes.items():
        counts[class_of(name)][outcome] += 1
    rows = sorted(counts.items(), key=lambda row: (-row[1]["fail"], row[0]))
    lines = [f"{'passed':>8} {'failed':>8} {'skipped':>8}  class"]
    lines += [f"{count['success']:>8} {count['fail']:>8} {count['skip']:>8}  {name}" for name, count in rows]
    total = Counter(outcomes.values())
    return [*lines, f"{total['success']:>8} {total['fail']:>8} {total['skip']:>8}  all"]


def known(lines: Iterable[str]) -> set[str]:
    """Return the names in a list of known failures."""
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def differences(outcomes: Mapping[str, str], expected: set[str]) -> list[str]:
    """Return failures that are not known, and known ones that pass now: these leave the list."""
    failed = {name for name, outcome in outcomes.items() if outcome == "fail"}
    passed = {name for name, outcome in outcomes.items() if outcome == "success"}
    return [
        *(f"failed: {name}" for name in sorted(failed - expected)),
        *(f"passed, take it out of {KNOWN.name}: {name}" for name in sorted(passed & expected)),
    ]
