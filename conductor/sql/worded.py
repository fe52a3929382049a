"""Questions about one uuid that the ORM puts into words once, and not each time they are asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from uuid import UUID, uuid4

from django.db import connections
from django.db.models import QuerySet

from conductor.sql.dialect import Rows, run

Compose = Callable[[str, UUID], "QuerySet[Any, tuple[Any, ...]]"]
Worded = tuple[str, list[Any], list[int]]  # the statement, its values, and which of them are the uuid


def _nothing() -> Hashable:
    return None


class AboutOne:
    """`compose(alias, uuid)` as a `values_list`; of all that it is made of only the uuid may change.

    What else its words depend on, as a setting may, `given` says: for each of its answers they are found anew. The
    rows are what the database answers, as a cursor gives them.
    """

    def __init__(self, compose: Compose, *, given: Callable[[], Hashable] = _nothing) -> None:
        self._compose = compose
        self._given = given
        self._worded: dict[tuple[str, Hashable], Worded] = {}

    def ask(self, alias: str, wanted: UUID) -> Rows:
        """The rows about `wanted`, asked in one statement."""
        connection = connections[alias]
        key = connection.vendor, self._given()
        found = self._worded.get(key)
        if found is None:
            found = self._worded[key] = self._words(alias)
        sql, values, places = found
        asked = list(values)
        for place in places:
            asked[place] = _AS_VALUE[connection.vendor](wanted)
        return run(connection, sql, asked)

    def _words(self, alias: str) -> Worded:
        sample = uuid4()
        sql, values = self._compose(alias, sample).query.get_compiler(alias).as_sql()
        sampled = _AS_VALUE[connections[alias].vendor](sample)
        places = [place for place, value in enumerate(values) if value == sampled]
        assert places, f"nothing in this statement is the uuid: {sql}"
        return sql, list(values), places


# As the drivers take a uuid; SQLite keeps 32 digits.
_AS_VALUE: dict[str, Callable[[UUID], Any]] = {"sqlite": lambda uuid: uuid.hex, "postgresql": lambda uuid: uuid}


def uuid_text(value: Any) -> str:
    """A uuid as a cursor gives it; "" for none."""
    text = str(value or "")
    return text if len(text) != 32 else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
