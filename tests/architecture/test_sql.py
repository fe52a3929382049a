"""Hand-written SQL is in one `statements.py` per Django app; what knows SQL in general is in `conductor/db/`.

The test looks for two signs of SQL in every other module. Text: a string, or a part of one, that begins a statement or
a clause in capitals; docstrings do not count. Calls: of functions that can execute SQL, in any spelling.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, PROJECT_DIR, own_files, parsed

SQL = re.compile(
    r"\b(SELECT\s+\S|INSERT\s+(OR\s+\w+\s+)?INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b|WITH\s+\w+\s+AS\s*\(|"
    r"FROM\s+[a-z]+_\w+|(LEFT\s+)?JOIN\s+\w+|WHERE\s+\S+\s*(=|<|>|IN\b|IS\b)|ORDER\s+BY\b|GROUP\s+BY\b|ON\s+CONFLICT\b|"
    r"FOR\s+UPDATE\b|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|DATABASE|OR\s+REPLACE)\b|PRAGMA\b|SAVEPOINT\b|"
    r"(SET|RESET)\s+\w+_\w+|pg_\w+\()"
)
EXECUTING = frozenset(
    {"cursor", "chunked_cursor", "straight_cursor", "executemany", "executescript", "raw", "RawSQL", "RunSQL"}
)
EXTRA = frozenset({"select", "where", "tables"})  # arguments of `QuerySet.extra`
DIALECT = frozenset({"run", "run_many", "scan"})  # of conductor.db.dialect
GENERAL = "conductor/db/"
# Other modules with SQL, and why.
ALLOWED = {
    "conductor/compute/host_journal.py": "a host's own SQLite file: hosts have neither Django nor its databases",
    "conductor/membership/sessions.py": "locks in the server's catalog, in a session of its own; no table of an app",
    "conductor/management/databases.py": "creates databases and serializes migrations, before there is any table",
    "portal/databases.py": "what each new connection to SQLite sets, as a setting of Django",
}


def _is_place(path: Path) -> bool:
    """Whether SQL may be here: general modules, migrations, and the one module of a Django app."""
    if path.as_posix().startswith(GENERAL) or path.parent.name == "migrations":
        return True
    return path.name in ("statements.py", "queries.py") and (PROJECT_DIR / path.parent / "apps.py").exists()


def _docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of strings that are statements by themselves."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def signs(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and sign of each piece of SQL."""
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            if found := SQL.search(node.value):
                yield node.lineno, found[0]
        elif isinstance(node, ast.ImportFrom) and node.module == "conductor.db.dialect":
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in DIALECT)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dialect":
            if node.attr in DIALECT:
                yield node.lineno, f"dialect.{node.attr}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in EXECUTING or (name == "extra" and EXTRA & {keyword.arg for keyword in node.keywords}):
                yield node.lineno, name


def test_sql_is_in_the_statements_of_its_app() -> None:
    files = [path for path in own_files(".py") if path.parts[0] in (*PACKAGES, "tools")]
    elsewhere = {
        f"{path}:{line}: {sign}"
        for path in files
        if not _is_place(path) and path.as_posix() not in ALLOWED
        for line, sign in signs(parsed(path))
    }
    assert not elsewhere, "move it into statements.py of its app:\n" + "\n".join(sorted(elsewhere))


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_each_module_that_is_allowed_sql_has_some(name: str) -> None:
    assert list(signs(parsed(Path(name)))), f"{name} has no SQL any more"


@pytest.mark.parametrize("app", sorted({path.parent for path in own_files(".py") if path.name == "apps.py"}))
def test_an_app_has_one_module_of_sql(app: Path) -> None:
    names = ("statements.py", "queries.py")
    assert sum((PROJECT_DIR / app / name).exists() for name in names) <= 1, f"{app} has both {names}"


INDEX = re.compile(r"\bIndex(es)?\b|^Insert |^Put |Reads no table")
REASON = re.compile(r"\bRaw SQL\b|\b[Rr]eason\b|raw SQL")


def unexplained(tree: ast.Module) -> Iterator[str]:
    """Yield functions that execute a statement, but do not say which index serves it, or why the ORM does not."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
            text = ast.get_docstring(function) or ""
            called = {
                ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(function) if isinstance(node, ast.Call)
            }
            if called & (DIALECT | {"run_each", "_among"}) and not (INDEX.search(text) and REASON.search(text)):
                yield function.name


@pytest.mark.parametrize("path", [path for path in own_files(".py") if path.name == "statements.py"], ids=str)
def test_statements_say_which_index_serves_and_why_the_orm_does_not(path: Path) -> None:
    assert list(unexplained(parsed(path))) == []


def test_a_statement_without_an_explanation_is_found() -> None:
    source = (
        'def find(connection):\n    """Return a row. Index: the primary key."""\n    return run(connection, TEXT)\n'
    )
    assert list(unexplained(ast.parse(source))) == ["find"]
    assert not list(unexplained(ast.parse(source.replace("key.", "key. Raw SQL, as each request does it."))))


@pytest.mark.parametrize(
    "source",
    [
        "sql = 'SELECT 1'",
        "sql = f'DELETE FROM {table} WHERE id = %s'",
        "sql = 'UPDATE journal_event SET kind = %s'",
        "tail = ' WHERE run_id = %s'",
        "from conductor.db.dialect import run",
        "dialect.run(connection, text)",
        "connection.cursor()",
        "Event.objects.raw(text)",
        "RawSQL(text, ())",
    ],
)
def test_sql_is_recognized(source: str) -> None:
    assert list(signs(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["'''SELECT 1'''", "methods = ('GET', 'DELETE', 'UPDATE')", "from conductor.db.dialect import NOW", "step.run(1)"],
)
def test_other_text_is_not_taken_for_sql(source: str) -> None:
    assert not list(signs(ast.parse(source)))
