"""All rows of all databases, for tests that compare them before and after."""

from __future__ import annotations

from django.db import connections


def everything() -> dict[str, list[str]]:
    """Return the rows of each table, by "alias.table"."""
    rows = {}
    for alias in connections:
        connection = connections[alias]
        with connection.cursor() as cursor:
            for table in connection.introspection.table_names(cursor):
                cursor.execute(f"SELECT * FROM {table}")
                rows[f"{alias}.{table}"] = sorted(map(repr, cursor.fetchall()))
    return rows
