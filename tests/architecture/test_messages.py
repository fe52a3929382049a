"""Every message that the code makes has a text with just its values, and every text has a place that makes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from conductor.core.messages import BUILT
from conductor.core.texts import FAMILIES, TEXTS
from tests.architecture.tree import parsed
from tests.fixtures.message_places import places

PROJECT = Path(__file__).resolve().parents[2]
ROOTS = ("conductor", "portal", "compute_drivers", "scheduler_plugins")


def trees() -> Iterator[tuple[str, ast.Module]]:
    for root in ROOTS:
        for path in sorted((PROJECT / root).rglob("*.py")):
            name = str(path.relative_to(PROJECT))
            if not name.startswith("conductor/core/texts/"):
                yield name, parsed(path)


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls of `message` or `messages.message`, where that is the one of `conductor.core.messages`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports if node.module == "conductor.core.messages" for alias in node.names}
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = ast.unparse(node.func)
        if called == "messages.message" or (called == "message" and "message" in names):
            yield node


def test_each_message_has_a_text_with_its_values() -> None:
    wrong = []
    for name, tree in trees():
        for call in calls(tree):
            code = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
            if not isinstance(code, str):
                continue
            given = {keyword.arg for keyword in call.keywords}
            if code not in TEXTS or (None not in given and given != places(code)):
                wrong.append(f"{name}:{call.lineno} {code} {sorted(map(str, given))}")
    assert wrong == []


def test_each_text_is_used() -> None:
    codes = {
        node.value
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    waits = {code for code in TEXTS if code.startswith("wait.")}  # made of the cause
    assert sorted(TEXTS.keys() - codes - waits) == []


def test_no_code_is_there_twice_nor_the_name_of_a_built_one() -> None:
    codes = [code for family in FAMILIES for code in family.TEXTS]
    assert len(codes) == len(set(codes))
    assert set(codes).isdisjoint(BUILT)
    assert all(re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", code) for code in codes)
