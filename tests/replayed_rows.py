"""Rows that many tests begin with: the product's own code creates them once, and each further test gets a copy.

    insert("people", create_rows)  # in the first test of a process `create_rows` runs

A copy has new uuids and new times, as if the code had run again, in a tenth of that time. On PostgreSQL, and where a
test has inserted such rows before, the code does run again.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.utils import timezone

_ID = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_TIME = re.compile(r'(?<=")20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}(?=")')
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
_ID_COLUMNS = ("id", "uuid")


@dataclass(frozen=True)
class _Record:
    """What was inserted: `rows` are the values by table, as JSON; `own` the ids that are new in each copy, `given`
    the names of those that others made.
    """

    tables: list[tuple[str, str]]  # a database's alias and an INSERT statement
    rows: str
    own: frozenset[str]
    given: Mapping[str, str]
    at: datetime


_records: dict[str, _Record] = {}


def insert(name: str, make: Callable[[], object], **given: str) -> None:
    """Insert what `make` inserts, which depends on nothing but the `given` ids (of 32 hexadecimal digits)."""
    if any(connection.vendor != "sqlite" for connection in connections.all()):
        make()
    elif name not in _records:
        before = _newest_rows()
        make()
        _records[name] = _record(before, given)
    elif not _copy(_records[name], given):
        make()


def _newest_rows() -> dict[tuple[str, str], int]:
    """Return the highest row number by database and table."""
    newest = {}
    for alias in connections:
        with connections[alias].cursor() as cursor:
            for table in connections[alias].introspection.table_names(cursor):
                cursor.execute(f'SELECT coalesce(max(rowid), 0) FROM "{table}"')
                newest[alias, table] = cursor.fetchone()[0]
    return newest


def _record(before: Mapping[tuple[str, str], int], given: Mapping[str, str]) -> _Record:
    tables, values, own = [], [], set()
    after = _newest_rows()
    for alias, table in (place for place in before if after[place] > before[place]):
        with connections[alias].cursor() as cursor:
            columns = [column.name for column in connections[alias].introspection.get_table_description(cursor, table)]
            named = ", ".join(f'"{column}"' for column in columns)
            # as JSON: values of the database, not converted to Python's types
            cursor.execute(
                f'SELECT json_array({named}) FROM "{table}" WHERE rowid > {before[alias, table]} ORDER BY rowid'
            )
            rows = [json.loads(row) for (row,) in cursor.fetchall()]
        tables.append((alias, f'INSERT INTO "{table}" ({named}) VALUES ({", ".join(["%s"] * len(columns))})'))
        values.append(rows)
        places = [place for place, column in enumerate(columns) if column in _ID_COLUMNS]
        own |= {row[place] for row in rows for place in places if _ID.fullmatch(str(row[place]))}
    names = {ident: name for name, ident in given.items()}
    return _Record(tables, json.dumps(values), frozenset(own), names, timezone.now())


def _copy(record: _Record, given: Mapping[str, str]) -> bool:
    """Insert the rows again; False where others are in their place, and then none is inserted."""
    fresh: dict[str, str] = {}

    def id_of(match: re.Match[str]) -> str:
        plain = match[0].replace("-", "")
        if plain in record.given:
            new = given[record.given[plain]]
        elif plain in record.own:
            new = fresh.setdefault(plain, uuid.uuid4().hex)
        else:
            return match[0]
        return str(uuid.UUID(new)) if "-" in match[0] else new

    passed = timezone.now() - record.at

    def time_of(match: re.Match[str]) -> str:
        return (datetime.strptime(match[0], _TIME_FORMAT) + passed).strftime(_TIME_FORMAT)  # noqa: DTZ007 - UTC, as read

    tables: list[Any] = json.loads(_TIME.sub(time_of, _ID.sub(id_of, record.rows)))
    try:
        with _atomic_in_all():
            for (alias, statement), rows in zip(record.tables, tables, strict=True):
                with connections[alias].cursor() as cursor:
                    cursor.executemany(statement, rows)
    except IntegrityError:
        return False
    return True


@contextmanager
def _atomic_in_all() -> Iterator[None]:
    with ExitStack() as stack:
        for alias in reversed(list(connections)):  # the first one alone has foreign keys that may not be there
            stack.enter_context(transaction.atomic(using=alias))
        yield
