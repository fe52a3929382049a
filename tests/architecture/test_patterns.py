"""Expressions that callers write are compiled in one place, by an engine that does not backtrack."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import PACKAGES, own_files, parsed

MATCHING = frozenset({"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
# Modules that hand over an expression which is no literal, and whose it is.
OTHERS = {
    "conductor/services/servers/extra_specs.py": "a table of ours; values are bounded",
    "conductor/core/scheduling/advice.py": "names of hosts, escaped",
    "compute_drivers/libvirt/host_inventory.py": "a name of ours",
    "portal/api/audited.py": "a table of ours",
    "portal/pages/search.py": "a word of the caller's, escaped, and nothing else",
    "portal/api/validation.py": "a table of ours: the schema's property names",
    "compute_drivers/fake/faults.py": "the operator's, of simulated hosts",
}
# Expressions in databases: with text of callers in it that holds characters of addresses only.
IN_DATABASES = {"conductor/services/servers/filters.py": "addresses"}


def _files() -> Iterator[Path]:
    return (path for path in own_files(".py") if path.parts[0] in PACKAGES)


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    """Whether it is a literal, or made of literals and constants of the module."""
    if isinstance(node, ast.JoinedStr):
        return all(
            not isinstance(part, ast.FormattedValue) or _is_of_constants(part, constants) for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left, constants) and _is_constant(node.right, constants)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in constants)


def _is_of_constants(part: ast.FormattedValue, constants: set[str]) -> bool:
    names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    return names <= constants


def _constants(tree: ast.Module) -> set[str]:
    """Return names that only the module itself sets, including loop variables of its comprehensions."""
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.For):
            found |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return found


def _open_expressions(path: Path) -> Iterator[int]:
    tree = parsed(path)
    constants = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if is_re and node.func.attr in MATCHING and not _is_constant(node.args[0], constants):
            yield node.lineno


def test_only_named_modules_hand_over_an_expression_that_is_no_literal() -> None:
    found = {str(path) for path in _files() if any(_open_expressions(path))}
    assert found == set(OTHERS)


def test_no_other_module_matches_in_ways_that_are_not_seen_here() -> None:
    """`from re import …`, `fnmatch`, and the expressions of databases."""
    found: dict[str, set[str]] = {"import": set(), "lookup": set(), "engine": set()}
    for path in _files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module in ("re", "fnmatch"):
                found["import"].add(str(path))
            if isinstance(node, ast.Import) and {name.name for name in node.names} & {"fnmatch", "re2"}:
                found["engine"].add(str(path))
            if isinstance(node, ast.keyword) and (node.arg or "").endswith(("__regex", "__iregex")):
                found["lookup"].add(str(path))
    assert found == {"import": set(), "lookup": set(IN_DATABASES), "engine": {"conductor/core/patterns.py"}}
