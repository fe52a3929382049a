"""What pages display can be translated: errors and notes are no f-strings, which have no entry in a catalogue.

Plain texts in services have none either: `phrase` marks them. Plain sentences of pages are found as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.architecture.tree import own_files, parsed

# Pages, and the services whose errors pages display: other services keep the words of OpenStack's APIs.
DISPLAYED = (
    "portal/pages",
    "conductor/services/accounts",
    "conductor/services/audit",
    "conductor/services/cells",
    "conductor/services/consoles",
    "conductor/services/fleet",
    "conductor/services/networks",
    "conductor/services/notifications",
    "conductor/services/operations",
    "conductor/services/plugins",
    "conductor/services/scheduling",
    "conductor/services/servers/due_snapshots.py",
    "conductor/services/servers/snapshot_schedules.py",
    "conductor/services/workflows",
)
# Files with errors that no page displays, and why.
EXEMPT = {
    "conductor/services/audit/seals.py": "a command prints them",
    "conductor/services/consoles/diagnostics.py": "the words of Nova's API",
    "conductor/services/networks/proxies.py": "the words of Nova's API",
    "conductor/services/notifications/plugin_sinks.py": "logged, and stored with the delivery",
    "conductor/services/notifications/sinks.py": "logged, and stored with the delivery",
    "conductor/services/notifications/targets.py": "stored with the delivery",
}


def _files() -> Iterator[Path]:
    return (path for path in own_files(".py") if any(path.is_relative_to(root) for root in DISPLAYED))


def _is_unmarked(node: ast.expr, function: ast.FunctionDef, *, allows_plain: bool) -> bool:
    """Whether a text is or holds an f-string or an unmarked text, or is a name to which its function assigns one."""
    judge = partial(_is_unmarked, function=function, allows_plain=allows_plain)
    if isinstance(node, ast.Name):
        values = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
        ]
        return any(judge(value) for value in values if not isinstance(value, ast.Name))
    if isinstance(node, ast.IfExp | ast.BinOp):
        parts = (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node.left, node.right)
        return any(judge(part) for part in parts)
    if isinstance(node, ast.Call):  # a method of the text, such as strip()
        return isinstance(node.func, ast.Attribute) and judge(node.func.value)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not allows_plain
    return isinstance(node, ast.JoinedStr)


def _texts(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield the texts of the errors that a function raises, and of the notes that it leaves for the next page."""
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from node.exc.args[:1]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "leave_note":
            yield from node.args[1:2]


def untranslatable(tree: ast.Module, *, allows_plain: bool = False) -> list[int]:
    """Return the lines of texts that no catalogue has an entry for."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sorted(
        {text.lineno for one in functions for text in _texts(one) if _is_unmarked(text, one, allows_plain=allows_plain)}
    )


def _lines(path: Path) -> list[int]:
    return untranslatable(parsed(path), allows_plain=path.parts[0] == "portal")


def test_errors_that_pages_display_can_be_translated() -> None:
    found = {str(path): lines for path in _files() if (lines := _lines(path))}
    assert {path: lines for path, lines in found.items() if path not in EXEMPT} == {}, (
        "use phrase(), or gettext() in pages"
    )
    assert EXEMPT.keys() == found.keys(), "an exception is not needed any more"


def test_the_search_finds_unmarked_errors_and_notes() -> None:
    code = """
def act(request, name):
    text = f"Unknown {name}."
    if name:
        raise Invalid(text, field="name")
    leave_note(request, f"{name} saved.", "good")
    if request is None:
        raise NotFound("Nothing here.")
    raise Invalid(phrase("Unknown %(name)s.", name=name), field=f"a.{name}")
"""
    assert untranslatable(ast.parse(code)) == [5, 6, 8]
    assert untranslatable(ast.parse(code), allows_plain=True) == [5, 6]
