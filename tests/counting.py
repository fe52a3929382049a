"""Counts what a piece of work asks of a database, at the driver: noise does not touch these figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

WRITES = ("INSERT", "UPDATE", "DELETE", "WITH")
BOOKKEEPING = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "--")
TABLES_WITH_TRIGGERS = "SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger'"
_listeners: dict[int, list[Callable[[str], None]]] = {}  # per connection of SQLite's driver


@dataclass
class Counted:
    """Statements without BEGIN and COMMIT, and transactions: those with a commit, and lone statements that write."""

    transactions: int = 0
    statements: list[str] = field(default_factory=list)

    def note(self, sql: str, *, is_inside: bool) -> None:
        """Note a statement, or one that ends a transaction, as the driver executes it."""
        self.transactions += sql.startswith("COMMIT")
        if not sql.startswith(BOOKKEEPING):
            self.statements.append(sql)
            self.transactions += not is_inside and sql.startswith(WRITES)


@contextmanager
def counted(alias: str) -> Iterator[Counted]:
    """Count on this thread's connection to `alias`."""
    connection, seen = connections[alias], Counted()
    connection.ensure_connection()
    driver = connection.connection

    def is_inside() -> bool:
        return bool(driver.in_transaction) if connection.vendor == "sqlite" else connection.in_atomic_block

    with _heard(connection, lambda sql: seen.note(sql, is_inside=is_inside())):
        yield seen


@contextmanager
def counted_in(*aliases: str) -> Iterator[dict[str, Counted]]:
    """Count on this thread's connection to each of several databases."""
    with ExitStack() as stack:
        yield {alias: stack.enter_context(counted(alias)) for alias in aliases}


def plan_of(alias: str, sql: str, parameters: Any, settings: str = "") -> str:
    """Return the plan of a statement, after `settings` on PostgreSQL."""
    connection = connections[alias]
    with transaction.atomic(alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql" and settings:
            cursor.execute(settings)
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}", parameters)
        return "\n".join(str(line[-1]) for line in cursor.fetchall())


class Captured:
    """The statements of a connection while inside, as Django's `CaptureQueriesContext` has them, but all of them."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self.captured_queries: list[dict[str, str]] = []

    def __enter__(self) -> Captured:
        self._connection.ensure_connection()
        self._heard = _heard(self._connection, self._note)
        self._heard.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._heard.__exit__(*exc)

    def _note(self, sql: str) -> None:
        if not sql.startswith("--"):
            self.captured_queries.append({"sql": sql})

    def __len__(self) -> int:
        return len(self.captured_queries)

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self.captured_queries)

    def __getitem__(self, index: int) -> dict[str, str]:
        return self.captured_queries[index]


@contextmanager
def _heard(connection: Any, note: Callable[[str], None]) -> Iterator[None]:
    if connection.vendor == "sqlite":
        with _heard_by_sqlite(connection.connection, note):
            yield
    else:
        with _heard_by_psycopg(connection, note):
            yield


@contextmanager
def _heard_by_sqlite(driver: Any, note: Callable[[str], None]) -> Iterator[None]:
    listeners = _listeners.setdefault(id(driver), [])
    listeners.append(note)
    driver.set_trace_callback(_once(driver, lambda sql: [listener(sql) for listener in listeners]))
    try:
        yield
    finally:
        listeners.remove(note)
        if not listeners:
            del _listeners[id(driver)]
            driver.set_trace_callback(None)


def _once(driver: Any, note: Callable[[str], Any]) -> Callable[[str], None]:
    """Note each statement once: the driver names a write again for each trigger that it starts."""
    with_triggers = [f" {table} " for (table,) in driver.execute(TABLES_WITH_TRIGGERS)]
    last = ""

    def heard(sql: str) -> None:
        nonlocal last
        is_of_trigger = sql == last and any(table in sql for table in with_triggers)
        last = sql
        if not is_of_trigger:
            note(sql.lstrip())

    return heard


@contextmanager
def _heard_by_psycopg(connection: Any, note: Callable[[str], None]) -> Iterator[None]:
    """Record each statement and commit of this connection, whichever cursor executes it."""

    def noting(method: Any, text_of: Callable[..., str]) -> Any:
        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            driver = getattr(self, "connection", self)
            if driver is connection.connection:
                note(text_of(*args))
            return method(self, *args, **kwargs)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name in ("execute", "executemany"):
            method = getattr(psycopg.Cursor, name)
            patch.setattr(psycopg.Cursor, name, noting(method, lambda query, *_: str(query).lstrip()))
        patch.setattr(psycopg.Connection, "commit", noting(psycopg.Connection.commit, lambda: "COMMIT"))
        yield
