"""No verdict depends on the speed of the machine: only `tests/waiting.py` sleeps, and no test asserts a duration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import own_files, parsed

CLOCKS = frozenset({"monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns", "time_ns"})
SLEEPERS = frozenset({"time", "asyncio"})
# A method of any object: the pause of playwright's pages.
PAUSES = frozenset({"wait_for_timeout"})

ALLOWED = {
    "tests/waiting.py": "it is the module for waiting",
    "tests/trouble_plugin.py": "a plugin in a process of its own that is slow or hangs on purpose",
    "tests/third_party_plugin/src/rack_plugins/extensions.py": "an installed plugin, which imports nothing of `tests`",
}


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each sleep, and of each assertion about elapsed time."""
    modules, functions = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _called(node.func, modules, functions)
            if name in ("time.sleep", "asyncio.sleep") and not (name == "asyncio.sleep" and _is_zero(node)):
                yield node.lineno, name
            elif isinstance(node.func, ast.Attribute) and node.func.attr in PAUSES:
                yield node.lineno, node.func.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            durations = _durations(node, modules, functions)
            yield from ((line, "assert on a duration") for line in _asserted(node, durations, modules, functions))


def _imported(tree: ast.Module) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of the modules `time` and `asyncio`, and of functions that are imported from them."""
    modules: dict[str, str] = {}
    functions: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name: one.name for one in node.names if one.name in SLEEPERS}
        elif isinstance(node, ast.ImportFrom) and node.module in SLEEPERS:
            functions |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return modules, functions


def _called(function: ast.expr, modules: dict[str, str], functions: dict[str, str]) -> str:
    """Return the full name of a function of `time` or `asyncio`; empty for any other."""
    if isinstance(function, ast.Name):
        return functions.get(function.id, "")
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id in modules:
        return f"{modules[function.value.id]}.{function.attr}"
    return ""


def _is_zero(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Walk a function or a module without the functions in it, which are scopes of their own."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own(node)


def _reads_clock(node: ast.AST, modules: dict[str, str], functions: dict[str, str]) -> bool:
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    names = (_called(call.func, modules, functions) for call in calls)
    return any(name.startswith("time.") and name.removeprefix("time.") in CLOCKS for name in names)


def _durations(scope: ast.AST, modules: dict[str, str], functions: dict[str, str]) -> set[str]:
    """Return the names that are assigned from a subtraction of times."""
    found: set[str] = set()
    for node in _own(scope):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
            continue
        minus = (one for one in ast.walk(node.value) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub))
        if any(_reads_clock(one, modules, functions) for one in minus):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)}
    return found


def _asserted(scope: ast.AST, durations: set[str], modules: dict[str, str], functions: dict[str, str]) -> Iterator[int]:
    for node in _own(scope):
        if not isinstance(node, ast.Assert):
            continue
        for one in ast.walk(node.test):
            if isinstance(one, ast.Compare) and (
                _reads_clock(one, modules, functions)
                or any(isinstance(name, ast.Name) and name.id in durations for name in ast.walk(one))
            ):
                yield node.lineno
                break


def _files() -> list[Path]:
    return [path for path in own_files(".py") if path.parts[0] == "tests"]


def test_only_the_module_for_waiting_sleeps_and_no_test_asserts_a_duration() -> None:
    found = {str(path): list(uses(parsed(path))) for path in _files()}
    wrong = {path: lines for path, lines in found.items() if lines and path not in ALLOWED}
    assert wrong == {}, "use tests/waiting.py: see docs/how-to/write-a-test-that-waits.md"


def test_each_allowed_file_needs_it() -> None:
    assert [name for name in ALLOWED if not list(uses(parsed(Path(name))))] == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import sleep as rest\nrest(1)", "time.sleep"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(0.1)", "asyncio.sleep"),
        ("def f(page):\n    page.wait_for_timeout(1)", "wait_for_timeout"),
        ("import time\ndef f():\n    assert time.monotonic() - began < 2", "assert on a duration"),
        ("import time\ndef f():\n    took = time.perf_counter() - began\n    assert 1 < took", "assert on a duration"),
        ("from time import time\nassert time() - began < 2", "assert on a duration"),
    ],
)
def test_sleeps_and_assertions_about_durations_are_found(code: str, name: str) -> None:
    assert [found for _, found in uses(ast.parse(code))] == [name]


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)",
        "import time\nlater = time.time() + 60",
        "import time\ndef f():\n    took = time.monotonic() - began\n    print(took)",
        "import time\ndef f():\n    took = time.monotonic() - began\ndef g(took):\n    assert took == 3",
        "def f(clock):\n    clock.sleep(1)",
    ],
)
def test_other_uses_of_time_are_allowed(code: str) -> None:
    assert list(uses(ast.parse(code))) == []
