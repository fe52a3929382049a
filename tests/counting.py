"""Counts what a piece of work asks of a database: noise does not touch these figures, so tests may demand them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

WRITES = ("INSERT", "UPDATE", "DELETE", "WITH")


@dataclass
class Counted:
    """Statements without BEGIN and COMMIT, and transactions: those with a commit, and lone statements that write."""

    transactions: int = 0
    statements: list[str] = field(default_factory=list)


@contextmanager
def counted(alias: str) -> Iterator[Counted]:
    """Count on this thread's connection to `alias`."""
    connection, seen = connections[alias], Counted()
    commit: Callable[[], None] = connection._commit

    def count_commit() -> None:
        seen.transactions += 1
        commit()

    def count_statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(("BEGIN", "SAVEPOINT", "RELEASE")):
            seen.statements.append(sql)
            seen.transactions += not connection.in_atomic_block and sql.startswith(WRITES)
        return execute(sql, params, many, context)

    connection._commit = count_commit
    try:
        with connection.execute_wrapper(count_statement):
            yield seen
    finally:
        del connection._commit
