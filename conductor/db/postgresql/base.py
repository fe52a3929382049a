"""The database engine `conductor.db.postgresql`; Django finds it by this module's name."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import Cursor, IsolationLevel
from psycopg.types.numeric import Int8Dumper

from conductor.core import time_budget
from conductor.db.postgresql.spare_connections import SPARES

# number of uses on a connection after which a statement is prepared: planning takes longer than most statements take to
# run
PREPARED_AFTER = 3
MOST_PREPARED = 300  # per connection; some 10 kB each at the server


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes a connection from the pool when Django opens one, and returns it when Django closes it.

    So CONN_MAX_AGE is 0: a thread holds a connection for the duration of a request, a message or a tick, and a process
    needs as many as it has active threads, not as many as it has threads.
    """

    @property
    def _spares_key(self) -> tuple[str, str]:
        return self.alias, str(self.settings_dict["NAME"])

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        spare = None if self.alias == NO_DB_ALIAS else SPARES.take(self._spares_key)
        if spare is None:
            return _with_plans(super().get_new_connection(conn_params))
        self.isolation_level = IsolationLevel.READ_COMMITTED
        return spare

    def _cursor(self, name: str | None = None) -> Any:
        if not self.in_atomic_block:
            time_budget.check()
        return super()._cursor(name)  # type: ignore[misc]

    def straight_cursor(self) -> Cursor[tuple[Any, ...]]:
        """Return a native cursor, for raw SQL. The server keeps the plans, and gets values as parameters.

        Django's cursor writes values into the text, so that each statement is planned anew.
        """
        return Cursor(self.connection)

    def _close(self) -> None:
        connection = self.connection
        # A connection after an error is not reused, and one inside a transaction is closed: the server rolls back.
        is_sound = connection is not None and not (self.in_atomic_block or self.errors_occurred)
        if not is_sound or self.alias == NO_DB_ALIAS or not SPARES.keep(self._spares_key, connection):
            super()._close()  # type: ignore[misc]

    def close_pool(self) -> None:
        """Close spare connections. Django calls this before it drops or copies a database."""
        SPARES.drop(self._spares_key)


def _with_plans(connection: Any) -> Any:
    """Pass all integers with one type. Otherwise each mixture of small and large integers would get its own plan."""
    connection.prepare_threshold = PREPARED_AFTER
    connection.prepared_max = MOST_PREPARED
    connection.adapters.register_dumper(int, Int8Dumper)
    return connection
