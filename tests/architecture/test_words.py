"""The field's words: retired ones are in no name and no prose, and class names and docstrings are specific."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.tree import parsed

PROJECT_DIR = Path(__file__).resolve().parents[2]
PRODUCT = ("portal", "conductor", "scheduler_plugins", "compute_drivers")
ALL = (*PRODUCT, "tools", "benchmarks", "tests")

# Words that are in no name: what to say instead.
RETIRED: dict[str, str] = {
    "wish": "create, update or request",
    "wishes": "requests",
    "wished": "requested",
    "asker": "caller",
    "askers": "callers",
    "deed": "action",
    "deeds": "actions",
    "doing": "action",
    "doings": "actions",
    "offer": "action, where a user may do it",
    "postman": "publisher",
    "doorbell": "notify",
    "passage": "transition",
    "abroad": "cross-database",
    "crossed": "is_serialization_failure",
    "worded": "compiled",
    "lowered": "downgraded",
    "spoken": "render",
    "leftovers": "uncompensated effects",
    "owed": "deferred",
    "owe": "defer",
    "owes": "has deferred",
    "owing": "deferred",
    "outrank": "renew the token",
    "outranked": "with a stale token",
    "bury": "expire leases, or mark as deleted",
    "buried": "expired, or marked as deleted",
    "duty": "periodic lease or periodic work",
    "duties": "periodic leases or periodic work",
    "attendance": "time limit",
    "crowd": "contention",
    "ladder": "hierarchy or lookahead",
    "recall": "decision cache",
    "stranger": "unmanaged",
    "strangers": "unmanaged",
    "face": "status badge",
    "faces": "status badges",
    "story": "workflow presenter",
    "stories": "workflow presenters",
    "desk": "hub",
    "audience": "channel",
    "seat": "subscription",
    "seats": "subscriptions",
    "ear": "listener",
    "supposition": "what-if changes",
    "suppositions": "what-if comparisons",
    "agreement": "approval",
    "agreements": "approvals",
    "usual": "typical or default",
    "silent": "unresponsive",
    "picture": "topology or drawing",
    "told": "emit, notify, report or log",
    "tell": "emit, notify, report or log",
    "said": "emit, notify, report or log",
    "somebody": "the role",
    "nobody": "the role",
    "lanes": "KeyedExecutor",
    "hands": "DriverContext",
    "honest": "anti-spoofing",
    "door": "actor, endpoint, middleware or boundary",
    "doorbells": "notifications",
    "gate": "lock, limiter or group commit",
    "gates": "locks, limiters or group commit",
    "mailbox": "sink, queue or message",
    "pen": "drawing style",
    "ring": "notify, or cycle",
    "whoever": "the role",
    "anybody": "the role",
    "everybody": "all callers, or all projects",
    "tells": "reports or shows",
    "telling": "report",
}
# Words that are in no docstring, comment, page of the documentation, template or script either.
RETIRED_IN_PROSE = (
    *("wish", "wishes", "wished", "asker", "askers", "deed", "deeds", "doings", "told", "said", "postman", "doorbell"),
    *(
        "abroad",
        "owed",
        "owes",
        "owing",
        "outrank",
        "outranked",
        "buried",
        "leftover",
        "leftovers",
        "honest",
        "strangers",
    ),
    *("somebody", "nobody", "whoever", "anybody", "spoken", "worded", "doorbells"),
)
# Texts that quote retired words: this rule, the list of the glossary, and the account `nobody` of Unix.
QUOTING = ("tests/architecture/test_words.py", "docs/reference/glossary.md", "tests/acceptance/test_private_files.py")
TEXTS = ("docs", "templates", "portal/static/novella/js", "portal/static/novella/css", "README.md", "CONTRIBUTING.md")
# Names that keep a retired word, since they are the contract of others, or the word of a protocol: why.
EXEMPT: dict[str, str] = {
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
    "Question": 0,
    "Received": 0,
    "Known": 0,
    "Seen": 0,
    "Load": 0,
    "Use": 0,
}
# Classes that share a name on purpose: Django finds them by it, a view has the name of its resource, and drivers of
# several kinds have the same parts.
SAME_NAME_WANTED = re.compile(
    r"compute_drivers/|portal/api/\w+/views/|.*/(apps|base)\.py|.*/management/commands/|.*/migrations/"
)
# Beginnings of docstrings that do not say what the thing is, apart from "Whether" where something is true or false.
VAGUE = re.compile(r"(Who|What|Whether|Why|How|Where|When|Which)\b")
# Beginnings of docstrings of functions that do not say what the function does: a verb says that.
NO_VERB = re.compile(
    r"(The|A|An|All|One|Each|Every|Both|Like|Those|That|These|This|Its?|No|Nothing|None|As|For|With)\b"
)

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TRUE_OR_FALSE = ("bool", "TypeGuard", "Mask")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Survey(NamedTuple):
    names: set[str]
    classes: list[tuple[str, str]]  # of the product: path, name
    top_classes: list[tuple[str, str]]  # those of a module that are not private
    vague: list[str]  # docstrings with their paths


def _names_of(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "name", "arg", "asname"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield from value.split(".")


def _is_vague(node: Documented) -> bool:
    text = ast.get_docstring(node) or ""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return VAGUE.match(text) is not None
    is_claim = node.returns is not None and ast.unparse(node.returns).startswith(TRUE_OR_FALSE)
    is_value = any(re.search("property|fixture", ast.unparse(decorator)) for decorator in node.decorator_list)
    is_case = node.name.startswith("test_")
    return not is_claim and bool(VAGUE.match(text) or (not is_value and not is_case and NO_VERB.match(text)))


@cache
def survey() -> Survey:
    found = Survey(set(), [], [], [])
    for room in ALL:
        for path in sorted((PROJECT_DIR / room).rglob("*.py")):
            where = str(path.relative_to(PROJECT_DIR))
            if room in PRODUCT:
                classes = [node.name for node in parsed(path).body if isinstance(node, ast.ClassDef)]
                found.top_classes.extend((where, name) for name in classes if not name.startswith("_"))
            for node in ast.walk(parsed(path)):
                found.names.update(_names_of(node))
                if room not in PRODUCT or not isinstance(node, DOCUMENTED):
                    continue
                if isinstance(node, ast.ClassDef):
                    found.classes.append((where, node.name.lstrip("_")))
                if _is_vague(node):
                    found.vague.append(f"{where}: {ast.get_docstring(node)}")
    return found


@cache
def with_word() -> dict[str, list[str]]:
    """Return the names with each retired word, apart from exempt ones."""
    found: dict[str, list[str]] = {word: [] for word in RETIRED}
    for name in sorted(survey().names - EXEMPT.keys()):
        for word in {part.lower() for part in WORDS.findall(name)} & RETIRED.keys():
            found[word].append(name)
    return found


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_in_no_name(word: str) -> None:
    assert with_word()[word] == [], f"say {RETIRED[word]}"


def _prose() -> Iterator[tuple[str, int, str]]:
    """Yield path, line number and text of docstrings and comments of Python, and of all lines of other texts."""
    for room in ALL:
        for path in sorted((PROJECT_DIR / room).rglob("*.py")):
            where = str(path.relative_to(PROJECT_DIR))
            for node in ast.walk(parsed(path)):
                if isinstance(node, DOCUMENTED):
                    yield where, getattr(node, "lineno", 1), ast.get_docstring(node) or ""
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield where, number, line.partition("#")[2]
    for room in TEXTS:
        top = PROJECT_DIR / room
        for path in sorted([top] if top.is_file() else top.rglob("*.*")):
            if path.suffix in (".md", ".html", ".js", ".css"):
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    yield str(path.relative_to(PROJECT_DIR)), number, line


def test_a_retired_word_is_in_no_prose() -> None:
    word = re.compile(rf"\b({'|'.join(RETIRED_IN_PROSE)})\b", re.IGNORECASE)
    found = [
        f"{where}:{number}: {', '.join(word.findall(text))}"
        for where, number, text in _prose()
        if where not in QUOTING and word.search(text)
    ]
    assert found == [], "the glossary says what to write instead"


def test_each_exempt_name_is_still_used() -> None:
    assert EXEMPT.keys() - survey().names == set()


@pytest.mark.parametrize("name", GENERIC)
def test_a_class_name_says_of_what(name: str) -> None:
    found = [path for path, one in survey().classes if one == name]
    assert len(found) <= GENERIC[name], found


def test_a_class_name_is_defined_once() -> None:
    paths: dict[str, set[str]] = {}
    for path, name in survey().top_classes:
        if not SAME_NAME_WANTED.match(path):
            paths.setdefault(name, set()).add(path)
    assert {name: found for name, found in paths.items() if len(found) > 1} == {}


def test_a_docstring_says_what_the_thing_is_or_does() -> None:
    assert survey().vague == []
