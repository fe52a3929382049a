"""Emptying the real databases between tests."""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction

# Filled by the schema migrations, not by tests.
_KEPT = ("django_migrations", "django_content_type", "auth_permission")
# Without checks of foreign keys and without triggers, in any order; SQLite checks keys at the end, and its triggers
# fill what is looked at again.
_BEFORE = {"postgresql": "SET LOCAL session_replication_role = replica"}
_RENUMBER = {
    "postgresql": (
        "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S' AND relname NOT IN (%s, %s, %s)",
        [f"{table}_id_seq" for table in _KEPT],
    ),
    "sqlite": ("UPDATE sqlite_sequence SET seq = 0 WHERE name NOT IN (%s, %s, %s)", _KEPT),
}
# By alias: SQLite's connection when it left the database empty, and what the connection reported then about changes.
_left_empty: dict[str, tuple[Any, int, int]] = {}


def empty_all() -> None:
    """Delete every row of every database. Much cheaper than Django's flush, which also re-creates permissions."""
    for alias in connections:
        connection = connections[alias]
        if connection.vendor != "sqlite":
            _empty(connection)
        elif _left_empty.get(alias) != _changes(connection):
            _empty(connection)
            _left_empty[alias] = _changes(connection)


def _changes(connection: Any) -> tuple[Any, int, int]:
    """Return SQLite's connection and how many rows it has changed, with a number that changes as others commit."""
    with connection.cursor() as cursor:
        (version,) = cursor.execute("PRAGMA data_version").fetchone()
    return connection.connection, connection.connection.total_changes, version


def _empty(connection: Any) -> None:
    """Delete the rows of filled tables, which are a few: to empty all tables takes longer than to look at them."""
    tables = [name for name in connection.introspection.table_names() if name not in _KEPT]
    look = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables)
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor in _BEFORE:
            cursor.execute(_BEFORE[connection.vendor])
        cursor.execute(look)
        while filled := cursor.fetchall():
            for (table,) in filled:
                cursor.execute(f"DELETE FROM {table}")
            cursor.execute(look)
        cursor.execute(*_RENUMBER[connection.vendor])
