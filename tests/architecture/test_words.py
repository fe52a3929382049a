"""The field's words: retired ones stay out of names, class names say of what, docstrings say what a thing is.

What is left from before has a ceiling. A ceiling only goes down: lower it with what you rename.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.tree import parsed

PROJECT_DIR = Path(__file__).resolve().parents[2]
PRODUCT = ("portal", "conductor", "scheduler_plugins", "compute_drivers")
ALL = (*PRODUCT, "tools", "benchmarks", "tests")

# A retired word in a name: what to say instead, and in how many names it still stands.
RETIRED: dict[str, tuple[str, int]] = {
    "wish": ("create, update or request", 0),
    "wishes": ("requests", 0),
    "wished": ("requested", 0),
    "asker": ("caller", 0),
    "askers": ("callers", 0),
    "deed": ("action", 0),
    "deeds": ("actions", 0),
    "doing": ("action", 0),
    "doings": ("actions", 0),
    "offer": ("action, where a user may do it", 0),
    "postman": ("publisher", 0),
    "doorbell": ("notify", 0),
    "passage": ("transition", 0),
    "abroad": ("cross-database", 0),
    "crossed": ("is_serialization_failure", 0),
    "worded": ("compiled", 0),
    "lowered": ("downgraded", 0),
    "spoken": ("render", 0),
    "leftovers": ("uncompensated effects", 0),
    "owed": ("deferred", 0),
    "owe": ("defer", 0),
    "owes": ("has deferred", 0),
    "owing": ("deferred", 0),
    "outrank": ("renew the token", 0),
    "outranked": ("with a stale token", 0),
    "bury": ("expire leases, or mark as deleted", 0),
    "buried": ("expired, or marked as deleted", 0),
    "duty": ("periodic lease or periodic work", 0),
    "duties": ("periodic leases or periodic work", 0),
    "attendance": ("time limit", 0),
    "crowd": ("contention", 0),
    "ladder": ("hierarchy or lookahead", 0),
    "recall": ("decision cache", 0),
    "stranger": ("unmanaged", 0),
    "strangers": ("unmanaged", 0),
    "face": ("status badge", 0),
    "faces": ("status badges", 0),
    "story": ("workflow presenter", 0),
    "stories": ("workflow presenters", 0),
    "desk": ("hub", 0),
    "audience": ("channel", 0),
    "seat": ("subscription", 0),
    "seats": ("subscriptions", 0),
    "ear": ("listener", 0),
    "supposition": ("what-if changes", 0),
    "suppositions": ("what-if comparisons", 0),
    "agreement": ("approval", 0),
    "agreements": ("approvals", 0),
    "usual": ("typical or default", 0),
    "silent": ("unresponsive", 0),
    "picture": ("topology or drawing", 0),
    "told": ("emit, notify, report or log", 0),
    "tell": ("emit, notify, report or log", 0),
    "said": ("emit, notify, report or log", 0),
    "somebody": ("the role", 0),
    "nobody": ("the role", 0),
    "lanes": ("KeyedExecutor", 0),
    "hands": ("DriverContext", 0),
    "honest": ("anti-spoofing", 0),
}
# Names that keep a retired word, since they are the contract of others, or the word of a protocol: why.
EXEMPT: dict[str, str] = {
    "OFFER": "the DHCP message",
    "BuryInCell0": "a step, named as Nova's conductor names it",
}
# Generic class names: in how many classes of the product each still stands.
GENERIC: dict[str, int] = {
    "Asked": 0,
    "Kind": 0,
    "Row": 0,
    "Place": 0,
    "Part": 0,
    "Line": 0,
    "Found": 0,
    "Answer": 0,
    "Outcome": 0,
    "Guest": 0,
}
# Docstrings of the product that begin with "Who", "What" or "Whether" where nothing is true or false.
VAGUE_DOCSTRINGS = 0

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TRUE_OR_FALSE = ("bool", "TypeGuard", "Mask")


class Survey(NamedTuple):
    names: set[str]
    classes: list[tuple[str, str]]  # of the product: path, name
    vague: list[str]


def _names_of(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "name", "arg", "asname"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield from value.split(".")


@cache
def survey() -> Survey:
    found = Survey(set(), [], [])
    for room in ALL:
        for path in sorted((PROJECT_DIR / room).rglob("*.py")):
            where = str(path.relative_to(PROJECT_DIR))
            for node in ast.walk(parsed(path)):
                found.names.update(_names_of(node))
                if room not in PRODUCT or not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    continue
                if isinstance(node, ast.ClassDef):
                    found.classes.append((where, node.name.lstrip("_")))
                returns = node.returns if isinstance(node, ast.FunctionDef) else None
                is_claim = returns is not None and ast.unparse(returns).startswith(TRUE_OR_FALSE)
                if not is_claim and re.match(r"(Who|What|Whether)\b", ast.get_docstring(node) or ""):
                    found.vague.append(where)
    return found


@cache
def with_word() -> dict[str, list[str]]:
    """The names with each retired word, but exempt ones and those of tests, which are sentences."""
    found: dict[str, list[str]] = {word: [] for word in RETIRED}
    for name in sorted(name for name in survey().names - EXEMPT.keys() if not name.startswith("test_")):
        for word in {part.lower() for part in WORDS.findall(name)} & RETIRED.keys():
            found[word].append(name)
    return found


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_in_no_new_name(word: str) -> None:
    instead, ceiling = RETIRED[word]
    assert len(with_word()[word]) <= ceiling, f"say {instead}: {with_word()[word]}"


def test_each_exempt_name_is_still_used() -> None:
    assert EXEMPT.keys() - survey().names == set()


@pytest.mark.parametrize("name", GENERIC)
def test_a_class_name_says_of_what(name: str) -> None:
    found = [path for path, one in survey().classes if one == name]
    assert len(found) <= GENERIC[name], found


def test_a_docstring_says_what_the_thing_is_or_does() -> None:
    assert len(survey().vague) <= VAGUE_DOCSTRINGS, Counter(survey().vague).most_common(20)
