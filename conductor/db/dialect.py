"""Raw SQL for the busiest statements: constant text, the database's own clock, little overhead around the driver.

An ORM query of one row costs ten times the database's own work; on the path of every step that is the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import AutoField, Field, Model

Row = tuple[Any, ...]
Rows = list[Row]

# Differences between databases. The clock is read as ORM expressions do: SQLite compares text.
_WORDS = {
    "sqlite": {
        "{now}": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
        "{later}": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', julianday('now') + %s / 86400.0)",
        "{for update}": "",  # a write transaction is exclusive from its BEGIN IMMEDIATE on
        "{for update skip locked}": "",
        "{for no key update skip locked}": "",
    },
    "postgresql": {
        "{now}": "clock_timestamp()",
        "{later}": "(clock_timestamp() + %s * interval '1 second')",
        "{for update}": "FOR UPDATE",
        "{for update skip locked}": "FOR UPDATE SKIP LOCKED",
        "{for no key update skip locked}": "FOR NO KEY UPDATE SKIP LOCKED",  # rows may still be referenced by new ones
    },
}


@dataclass(frozen=True)
class SecondsFromNow:
    """A time by the database's clock, this many seconds from now."""

    seconds: float = 0.0

    @property
    def word(self) -> str:
        # Rounding a sum may end a millisecond after the clock itself, and a row due now must be due at once.
        return "{later}" if self.seconds else "{now}"

    @property
    def params(self) -> tuple[float, ...]:
        return (self.seconds,) if self.seconds else ()


NOW = SecondsFromNow()


@dataclass(frozen=True)
class UnlessConstant:
    """A value for `column`, unless the column has the constant `kept`, which stays."""

    column: str
    kept: str
    value: Any

    @property
    def word(self) -> str:
        return f'CASE WHEN "{self.column}" = \'{self.kept}\' THEN "{self.column}" ELSE %s END'

    @property
    def params(self) -> tuple[Any]:
        return (self.value,)


@cache
def render(template: str, vendor: str) -> str:
    """Return a template in the SQL of one database, for a cursor of Django."""
    for word, meaning in _WORDS[vendor].items():
        template = template.replace(word, meaning)
    return template


@lru_cache(maxsize=512)
def _native(template: str, vendor: str) -> str:
    """Return a template in the SQL of one database, for a native cursor. SQLite's native cursor has other
    placeholders.
    """
    text = render(template, vendor)
    return text.replace("%s", "?").replace("%%", "%") if vendor == "sqlite" else text


def run(connection: BaseDatabaseWrapper, template: str, params: Sequence[Any] = ()) -> Rows:
    """Execute one statement, and return its rows."""
    with connection.wrap_database_errors:
        cursor = _straight_cursor(connection)
        cursor.execute(_native(template, connection.vendor), params)
        return cursor.fetchall() if cursor.description else []


def run_many(connection: BaseDatabaseWrapper, template: str, rows: Sequence[Sequence[Any]]) -> int:
    """Execute one statement for each row of parameters. Return how many rows it changed in total."""
    with connection.wrap_database_errors:
        cursor = _straight_cursor(connection)
        cursor.executemany(_native(template, connection.vendor), rows)
        return int(cursor.rowcount)


def run_each(connection: BaseDatabaseWrapper, wanted: Iterable[tuple[str, Sequence[Any]]]) -> int:
    """Execute statements with their parameters, equal texts together. Return how many rows they changed in total."""
    by_text: dict[str, list[Row]] = {}
    for text, params in wanted:
        by_text.setdefault(text, []).append(tuple(params))
    return sum(run_many(connection, text, rows) for text, rows in by_text.items())


def _straight_cursor(connection: Any) -> Any:
    """Return a native cursor, as Django's costs several times the database's work."""
    if connection.connection is None:
        connection.ensure_connection()
    if connection.needs_rollback:
        connection.validate_no_broken_transaction()
    return connection.straight_cursor() if connection.vendor == "postgresql" else connection.connection.cursor()


class Insert:
    """Inserts rows of one model: `given` columns from parameters, `now` columns from the database's clock.

    Columns of `later` get a time by that clock, in so many seconds. All other columns get the defaults of the model or
    of the table, so that a new column needs no change here.
    """

    def __init__(
        self,
        model: type[Model],
        *given: str,
        now: tuple[str, ...] = (),
        later: Mapping[str, float] | None = None,
        end: str = "RETURNING id",
    ) -> None:
        self._model = model
        self._given = given
        self._later = later or {}
        self._now = now
        self._end = end
        self._shapes: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
        self._inserts: dict[tuple[str, int], tuple[str, Row]] = {}
        self._texts: dict[tuple[str, int], str] = {}

    def run(self, connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> Rows:
        """Insert all rows in one statement. Return the returned columns of each, in order."""
        text, defaults = self._text(connection, len(rows))
        params = [value for row in rows for value in (*row, *defaults)]
        return sorted(run(connection, text, params))

    def selected(self, connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]], source: str) -> tuple[str, Row]:
        """Return the insert as a part of a longer statement of PostgreSQL. It runs where `source` has a row."""
        _, _, defaults = self._shape(connection)
        key = (source, len(rows))
        if key not in self._texts:
            fields = self._parameters()
            row = ", ".join(f"%s::{field.db_type(connection)}" for field in fields)
            clocks = "".join(", {now}" for _ in self._now)
            given = ", ".join([f"({row})"] * len(rows))
            self._texts[key] = (
                f"INSERT INTO {self._model._meta.db_table} ({names([*(f.column for f in fields), *self._now])}) "
                f"SELECT given.*{clocks} FROM {source} CROSS JOIN (VALUES {given}) AS given "
                f"{self._end}"
            )
        return self._texts[key], tuple(value for row in rows for value in (*row, *defaults))

    def _text(self, connection: BaseDatabaseWrapper, count: int) -> tuple[str, Row]:
        """Return the statement for so many rows, and the defaults that follow the given values in each."""
        key = (connection.vendor, count)
        known = self._inserts.get(key)
        if known is None:
            head, row, defaults = self._shape(connection)
            known = self._inserts[key] = (f"{head} VALUES {', '.join([row] * count)} {self._end}", defaults)
        return known

    def _shape(self, connection: BaseDatabaseWrapper) -> tuple[str, str, tuple[Any, ...]]:
        """Return the head of the statement, placeholders of one row, and the defaults that follow the given values."""
        if connection.vendor not in self._shapes:
            fields = self._parameters()
            rest = fields[len(self._given) :]
            defaults = tuple(field.get_db_prep_save(field.get_default(), connection) for field in rest)
            defaults += tuple(self._later.values())
            columns = [*(field.column for field in fields), *self._later, *self._now]
            places = ["%s"] * len(fields) + ["{later}"] * len(self._later) + ["{now}"] * len(self._now)
            head = f"INSERT INTO {self._model._meta.db_table} ({names(columns)})"
            self._shapes[connection.vendor] = (head, f"({', '.join(places)})", defaults)
        return self._shapes[connection.vendor]

    def _parameters(self) -> list[Field[Any, Any]]:
        """Return the fields that are parameters: the given ones, then those with a default in Python."""
        own = (field for field in self._model._meta.concrete_fields if not isinstance(field, AutoField))
        fields = {field.column: field for field in own}
        given = [fields.pop(column) for column in self._given]
        rest = [field for field in fields.values() if field.column not in (*self._now, *self._later)]
        return given + [field for field in rest if field.has_default() or not field.has_db_default()]


def update(table: str, values: Iterable[tuple[str, Any]], where: str) -> tuple[str, list[Any]]:
    """Return an UPDATE and its parameters; values may be `SecondsFromNow` or `UnlessConstant`."""
    words: list[tuple[str, str]] = []
    params: list[Any] = []
    for name, value in values:
        if isinstance(value, (SecondsFromNow, UnlessConstant)):
            words.append((name, value.word))
            params.extend(value.params)
        else:
            words.append((name, "%s"))
            params.append(value)
    return _update(table, tuple(words), where), params


@lru_cache(maxsize=512)
def _update(table: str, words: tuple[tuple[str, str], ...], where: str) -> str:
    changes = ", ".join(f'"{name}" = {word}' for name, word in words)
    return f"UPDATE {table} SET {changes} WHERE {where}"


def places(values: Sized) -> str:
    """Return one placeholder for each of `values`."""
    return ", ".join(["%s"] * len(values))


def names(columns: Iterable[str | None]) -> str:
    """Return columns as SQL names."""
    return ", ".join(f'"{column}"' for column in columns)  # "index" is a keyword of SQL


def padded(values: Sequence[Any]) -> list[Any]:
    """Return values for an `IN`, the last one repeated up to a power of two: few distinct texts, which can be
    cached.
    """
    return [*values, *[values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))] if values else []


AT_ONCE = 2000


def scan(connection: BaseDatabaseWrapper, template: str, params: Sequence[Any] = ()) -> Iterator[Row]:
    """Yield the rows as the driver gives them, while the statement is open. Booleans may be numbers, and JSON is
    text.
    """
    # A server-side cursor outlives its transaction only on a connection that no other client gets meanwhile.
    is_pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    with connection.cursor() if is_pooled else connection.chunked_cursor() as cursor:
        cursor.execute(render(template, connection.vendor), params)
        while rows := cursor.fetchmany(AT_ONCE):
            yield from rows
