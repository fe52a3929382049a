"""A budget for the tail: no file, function or signature grows until it owns everything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import own_files, parsed, read

FILE_LINES = 400
TABLE_LINES = 600
TABLES = frozenset({"serializers", "schemas", "messages"})
FUNCTION_LINES = 40
ARGUMENTS = 6
REFUSED_NAMES = frozenset({"utils", "helpers", "common", "misc", "util", "helper"})

# What is over a budget, by how much it may be, and why it is better so.
ALLOWED: dict[str, tuple[int, str]] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    for path in own_files(".py"):
        if "migrations" in path.parts:
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, Function):
                yield f"{path}:{node.name}", node


def allowed(place: str, budget: int) -> int:
    return ALLOWED.get(place, (budget, ""))[0]


def lines_of(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def arguments_of(function: Function) -> int:
    taken = function.args
    named = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len([name for name in named if name not in {"self", "cls"}])


def file_budget(path: Path) -> int:
    return TABLE_LINES if TABLES & set(path.parts) else FILE_LINES


def test_no_file_is_too_long() -> None:
    sizes = {
        path: len(read(path).splitlines())
        for path in own_files(".py", ".html", ".css", ".js")
        if "migrations" not in path.parts
    }
    over = {str(path): size for path, size in sizes.items() if size > allowed(str(path), file_budget(path))}
    assert over == {}


def test_no_function_is_too_long() -> None:
    sizes = {place: lines_of(function) for place, function in functions()}
    assert {place: size for place, size in sizes.items() if size > allowed(place, FUNCTION_LINES)} == {}


def test_no_function_takes_too_much() -> None:
    sizes = {place: arguments_of(function) for place, function in functions() if not _is_test(place)}
    assert {place: size for place, size in sizes.items() if size > allowed(f"{place}()", ARGUMENTS)} == {}


def test_no_file_is_a_drawer_for_anything() -> None:
    assert [str(path) for path in own_files(".py") if path.stem in REFUSED_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path)
        for path in own_files(".py")
        if path.name != "__init__.py" and "migrations" not in path.parts and not ast.get_docstring(parsed(path))
    ]
    assert silent == []


def test_every_exception_to_a_budget_is_still_needed() -> None:
    sizes: dict[str, int] = {
        str(path): len(read(path).splitlines()) for path in own_files(".py", ".html", ".css", ".js")
    }
    for place, function in functions():
        sizes[place] = lines_of(function)
        sizes[f"{place}()"] = arguments_of(function)
    loose = {
        place: sizes.get(place) for place, (most, reason) in ALLOWED.items() if sizes.get(place) != most or not reason
    }
    assert loose == {}


def _is_test(place: str) -> bool:
    """Fixtures are asked for by argument: a test may need many."""
    return place.startswith("tests/")
