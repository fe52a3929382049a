"""SQLite alone opens the files of its databases, in the product and in tests.

SQLite locks a file with POSIX locks. When a process closes any descriptor of the file, the kernel drops all locks that
the process has on it: committed rows vanish, and other processes truncate the shared memory that is in use. Tests take
copies from `tests/sqlite_copies.py`, where another process makes them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import own_files, parsed, read

READS = {"open", "copy", "copy2", "copyfile", "copyfileobj", "copytree", "read_bytes", "read_text"}
CALLS = READS | {"write_bytes", "write_text", "unlink", "touch"}
COPIES = frozenset({"copy_of", "content_of"})  # of tests/sqlite_copies.py
TREES = frozenset({"copytree"})
NAMES = frozenset({"journal_path", "database_path", "sqlite_path", "db_path"})
FOLDERS = frozenset({"data_dir", "seeded_data", "NOVELLA_DATA"})  # they hold databases: not to be copied as a whole
FILES = ("sqlite3", ".sqlite", "-wal", "-shm")
NOT_FILES = ("conductor.db.sqlite3", "django.db.backends.sqlite3")
# File and function → why no process has the database open.
EXCEPTIONS = {
    ("tests/acceptance/cloud.py", "copy_seeded"): "the cloud that seeded the folder has ended",
    ("tests/acceptance/deployment.py", "_keep_as"): "the databases are PostgreSQL's, and no agent has run yet",
    ("tests/acceptance/deployment.py", "_start_database"): "a template that no process opens",
    ("tests/compute_drivers/test_libvirt_accounts.py", "secret"): "a file of that name, which is no database",
    ("tests/unit/test_guest_accounts.py", "disk"): "a file of that name, which is no database",
    ("tests/unit/test_compute_agent.py", "test_an_unknown_driver_and_a_damaged_journal_are_named_and_stop_no_other"): (
        "a file that is no database, written before the agent starts"
    ),
    ("tests/unit/test_host_journal.py", "test_report_numbers_rise_across_restarts_and_after_the_loss_of_the_file"): (
        "the journal is closed before its files are removed"
    ),
}


def without_copies(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through an expression, but not into calls that return a copy."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in COPIES:
            return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from without_copies(child)


def is_named(node: ast.AST, tainted: frozenset[str] | set[str], is_tree: bool) -> bool:
    """Whether an expression mentions the file of a database."""
    for part in without_copies(node):
        match part:
            case ast.Constant(value=str(text)):
                if any(word in text for word in FILES) and not any(word in text for word in NOT_FILES):
                    return True
            case ast.Subscript(value=ast.Attribute(attr="settings_dict"), slice=ast.Constant(value="NAME")):
                return True
            case ast.Attribute(attr=name) | ast.Name(id=name):
                if name in NAMES or (isinstance(part, ast.Name) and name in tainted) or (is_tree and name in FOLDERS):
                    return True
    return False


def bindings(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of the function's assignments, loops and comprehensions, with what it is bound to."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value
            case ast.NamedExpr(target=target, value=value):
                yield target, value
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                yield target, source


def is_path(value: ast.expr) -> bool:
    """Whether a value can be a path: no result of a call, except of those that return paths."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in {"Path", "str", "glob", "rglob", "sorted", "list", "with_name", "with_suffix", "absolute"}
        case _:
            return True


def uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield function and line of each call that opens, copies or removes the file of a database."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for part in tree.body:
        inner = part.body if isinstance(part, ast.ClassDef) else [part]
        for scope in inner:
            name = scope.name if isinstance(scope, functions) else "<module>"
            tainted: set[str] = set()
            for _ in range(3):
                for target, value in bindings(scope):
                    if is_path(value) and is_named(value, tainted, is_tree=False):
                        tainted |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
            yield from ((name, node.lineno) for node in ast.walk(scope) if is_use(node, tainted))


def is_use(node: ast.AST, tainted: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in CALLS:
            mentions = [*node.args, *(keyword.value for keyword in node.keywords)]
            if called.startswith("write_"):
                mentions = []  # the text may well mention a file
            if isinstance(node.func, ast.Attribute):
                mentions.append(node.func.value)
            return any(is_named(one, tainted, called in TREES) for one in mentions)
        case _:
            return False


def found_in(path: Path) -> list[tuple[str, str, int]]:
    text = read(path)
    if not any(word in text for word in (*FILES, *NAMES, *TREES, "settings_dict")):
        return []
    return [(path.as_posix(), function, line) for function, line in uses(parsed(path))]


def test_no_code_touches_the_files_of_databases() -> None:
    found = [one for path in own_files(".py") for one in found_in(path)]
    assert [one for one in found if one[:2] not in EXCEPTIONS] == [], "take a copy: tests/sqlite_copies.py"
    assert EXCEPTIONS.keys() - {one[:2] for one in found} == set(), "these exceptions are not needed"


@pytest.mark.parametrize(
    "line",
    [
        "open(folder / 'api.sqlite3')",
        "(folder / 'api.sqlite3-wal').read_bytes()",
        "os.open(config.journal_path, os.O_RDWR)",
        "shutil.copyfile(connection.settings_dict['NAME'], target)",
        "shutil.copytree(cloud.data_dir, target)",
        "[path.read_bytes() for path in data.glob('*.sqlite3*')]",
        "path = folder / f'{host}.sqlite3'\n    other = path\n    other.write_bytes(b'')",
        "for path in sorted(data.glob('*.sqlite3')):\n        shutil.copy(path, target)",
    ],
)
def test_each_way_is_found(line: str) -> None:
    assert [name for name, _ in uses(ast.parse(f"def some(folder):\n    {line}\n"))] == ["some"]


@pytest.mark.parametrize(
    "line",
    [
        "sqlite3.connect(folder / 'api.sqlite3')",
        "copy_of(config.journal_path, folder).read_bytes()",
        "page.write_text('cp api.sqlite3')",
        "open(log_path)",
        "shutil.copytree(source, target)",
    ],
)
def test_other_calls_pass(line: str) -> None:
    assert list(uses(ast.parse(f"def some(folder):\n    {line}\n"))) == []
