"""Size budgets: no file, function or signature grows beyond its limit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.tree import own_files, parsed, read

FILE_LINES = 600
FUNCTION_LINES = 60
ARGUMENTS = 6
REFUSED_NAMES = frozenset({"utils", "helpers", "common", "misc", "util", "helper"})

# Exceptions from a budget: the excess that is allowed, and its reason.
ALLOWED: dict[str, tuple[int, str]] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measured:
    """The measurements of a module for the budgets; the whole project's syntax trees would fill the memory."""

    says_what_it_is_for: bool
    functions: dict[str, tuple[int, int]]  # place → lines and arguments


@cache
def modules() -> dict[Path, Measured]:
    return {path: measured(path) for path in own_files(".py") if "migrations" not in path.parts}


def measured(path: Path) -> Measured:
    module = parsed(path)
    sizes = {f"{path}:{found.name}": (lines_of(found), arguments_of(found)) for found in functions_in(module)}
    return Measured(bool(ast.get_docstring(module)), sizes)


def functions_in(node: ast.AST) -> Iterator[Function]:
    """Yield functions: they are statements, so expressions, which are most of a tree, are skipped."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from functions_in(child)


def sizes_of_functions() -> dict[str, tuple[int, int]]:
    return {place: sizes for found in modules().values() for place, sizes in found.functions.items()}


def allowed(place: str, budget: int) -> int:
    return ALLOWED.get(place, (budget, ""))[0]


def lines_of(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def arguments_of(function: Function) -> int:
    taken = function.args
    named = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len([name for name in named if name not in {"self", "cls"}])


def test_no_file_is_too_long() -> None:
    sizes = {
        path: len(read(path).splitlines())
        for path in own_files(".py", ".html", ".css", ".js")
        if "migrations" not in path.parts
    }
    over = {str(path): size for path, size in sizes.items() if size > allowed(str(path), FILE_LINES)}
    assert over == {}


def test_no_function_is_too_long() -> None:
    sizes = sizes_of_functions()
    assert {place: lines for place, (lines, _) in sizes.items() if lines > allowed(place, FUNCTION_LINES)} == {}


def test_no_function_takes_too_much() -> None:
    sizes = {place: taken for place, (_, taken) in sizes_of_functions().items() if not _is_test(place)}
    assert {place: taken for place, taken in sizes.items() if taken > allowed(f"{place}()", ARGUMENTS)} == {}


def test_no_module_is_named_utils_or_the_like() -> None:
    assert [str(path) for path in own_files(".py") if path.stem in REFUSED_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    undescribed = [str(path) for path, found in modules().items() if not found.says_what_it_is_for]
    assert [path for path in undescribed if not path.endswith("__init__.py")] == []


def test_every_exception_to_a_budget_is_still_needed() -> None:
    sizes: dict[str, int] = {
        str(path): len(read(path).splitlines()) for path in own_files(".py", ".html", ".css", ".js")
    }
    for place, (lines, taken) in sizes_of_functions().items():
        sizes |= {place: lines, f"{place}()": taken}
    loose = {
        place: sizes.get(place) for place, (most, reason) in ALLOWED.items() if sizes.get(place) != most or not reason
    }
    assert loose == {}


def _is_test(place: str) -> bool:
    """Fixtures are asked for by argument: a test may need many."""
    return place.startswith("tests/")
