"""Long answers row by row: nobody holds all rows of a large table at once, nor makes models of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.sql.dialect import Row, spoken

AT_ONCE = 2000


def scan(connection: BaseDatabaseWrapper, template: str, params: Sequence[Any] = ()) -> Iterator[Row]:
    """The rows as the driver gives them, while the statement is open: booleans may be numbers, JSON is text."""
    # A cursor of the server's outlives its transaction only on a connection that nobody else is handed meanwhile.
    is_pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    with connection.cursor() if is_pooled else connection.chunked_cursor() as cursor:
        cursor.execute(spoken(template, connection.vendor), params)
        while rows := cursor.fetchmany(AT_ONCE):
            yield from rows
