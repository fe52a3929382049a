"""Private names of libraries are used only where there is no public one, each with its reason.

A private name of a library is an attribute that begins with one underscore and that no module of the project defines,
or such a name that is imported from a library. Names that are documented in spite of their underscore do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, own_files, parsed

DOCUMENTED = frozenset({"_meta", "_state", "_default_manager", "_asdict", "_fields", "_exit", "_getframe"})
# See docs/explanation/decisions/0024-private-names-that-stay.md.
ALLOWED = {
    ("conductor/rpc/redis_broker.py", "_RedisConsumer"): "the class that `consumer_class` must return",
    ("conductor/rpc/redis_broker.py", "_should_do_maintenance"): "an argument of dramatiq's script",
    ("conductor/rpc/redis_broker.py", "_max_unpack_size"): "an argument of dramatiq's script",
    ("portal/api/novella/openapi.py", "_map_serializer"): "drf-spectacular's way to describe a serializer",
}
# Inner workings that nothing may touch, whatever defines the name.
REFUSED = frozenset({"PyThreadState_SetAsyncExc", "run_on_commit", "savepoint_ids"})
# Signs of debugging, or of statements being counted: no code path may depend on them.
REFUSED |= {"force_debug_cursor", "queries_log", "queries_logged", "execute_wrapper", "execute_wrappers"}
WHOLE_NAMES = frozenset({"object.__setattr__", "settings.DEBUG", "environment.debug"})
SETTER = {"conductor/core/host_state.py": "converts fields of a frozen value while it is created"}


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    names = [path for path in own_files(".py") if path.parts[0] in (*PACKAGES, "tools")]
    return tuple((str(path), parsed(Path(path))) for path in names)


def _defined_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            yield node.attr


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def _defined() -> frozenset[str]:
    return frozenset(name for _, tree in _modules() for name in _defined_in(tree))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def private_names(tree: ast.Module, defined: Iterable[str]) -> Iterator[str]:
    """Yield the private names of libraries that a module uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in defined:
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in PACKAGES:
            yield from (alias.name for alias in node.names if _is_private(alias.name))


def inner_workings(tree: ast.Module) -> Iterator[str]:
    """Yield what a module changes or reads of the inner workings of Python and Django."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in REFUSED:
            yield node.attr
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if ast.unparse(node.value) == "sys.modules":
                yield "sys.modules"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in WHOLE_NAMES:
            yield ast.unparse(node)


def test_private_names_have_a_reason() -> None:
    found = {(path, name) for path, tree in _modules() for name in private_names(tree, _defined())}
    assert found == ALLOWED.keys()


def test_inner_workings_are_left_alone() -> None:
    found = {(path, name) for path, tree in _modules() for name in inner_workings(tree)}
    assert found == {(path, "object.__setattr__") for path in SETTER} | {("portal/settings.py", "environment.debug")}


@pytest.mark.parametrize(
    "source",
    [
        "sys.modules[name] = None",
        "connection.run_on_commit.clear()",
        "object.__setattr__(host, 'name', 'h1')",
        "if settings.DEBUG: pass",
        "if connection.queries_logged: pass",
    ],
)
def test_inner_workings_are_recognized(source: str) -> None:
    assert list(inner_workings(ast.parse(source)))


@pytest.mark.parametrize("source", ["connection._nodb_cursor()", "from dramatiq.worker import _WorkerThread"])
def test_private_names_are_recognized(source: str) -> None:
    assert list(private_names(ast.parse(source), ()))
