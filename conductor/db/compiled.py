"""Queries about one uuid that the ORM compiles once, not for each use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.db import connections
from django.db.models import QuerySet

from conductor.db.dialect import Rows, run

Query = Callable[[str, UUID], "QuerySet[Any, tuple[Any, ...]]"]
Statement = tuple[str, list[Any], list[int]]  # the statement, its values, and which of them are the uuid


def _nothing() -> Hashable:
    return None


class CompiledQuery:
    """A query `compose(alias, uuid)` as a `values_list`, in which only the uuid may vary.

    `given` returns all else on which the SQL depends, such as a setting. Each of its values has its own SQL. The rows
    are those of the database, as a cursor gives them.
    """

    def __init__(self, compose: Query, *, given: Callable[[], Hashable] = _nothing) -> None:
        self._compose = compose
        self._given = given
        self._compiled: dict[tuple[str, Hashable], Statement] = {}

    def ask(self, alias: str, wanted: UUID) -> Rows:
        """Return the rows about `wanted`, with one statement."""
        connection = connections[alias]
        key = connection.vendor, self._given()
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._words(alias)
        sql, values, places = found
        requested = list(values)
        for place in places:
            requested[place] = _AS_VALUE[connection.vendor](wanted)
        return run(connection, sql, requested)

    def _words(self, alias: str) -> Statement:
        sample = uuid4()
        sql, values = self._compose(alias, sample).query.get_compiler(alias).as_sql()
        sampled = _AS_VALUE[connections[alias].vendor](sample)
        places = [place for place, value in enumerate(values) if value == sampled]
        assert places, f"nothing in this statement is the uuid: {sql}"
        return sql, list(values), places


def rows(alias: str, sql: str, params: Sequence[Any]) -> Rows:
    """Execute a statement that the ORM compiled earlier. Return its rows as a cursor gives them."""
    with connections[alias].cursor() as cursor:
        cursor.execute(sql, params)
        found: Rows = cursor.fetchall()
        return found


# As the drivers take a uuid; SQLite stores 32 digits.
_AS_VALUE: dict[str, Callable[[UUID], Any]] = {"sqlite": lambda uuid: uuid.hex, "postgresql": lambda uuid: uuid}


def uuid_text(value: Any) -> str:
    """Return a uuid from a cursor as text. Empty for none."""
    text = str(value or "")
    return text if len(text) != 32 else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
