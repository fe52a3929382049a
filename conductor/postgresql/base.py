"""The database engine `conductor.postgresql`; Django finds it by this module's name."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import IsolationLevel

from conductor.postgresql.spares import SPARES


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes a spare connection where Django would open one, and gives it back where Django would close it.

    So CONN_MAX_AGE is 0: a thread holds a connection for the length of a request, a message or a tick, and a process
    needs as many as it has threads at work, not as many as it has threads.
    """

    @property
    def _spares_key(self) -> tuple[str, str]:
        return self.alias, str(self.settings_dict["NAME"])

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        spare = None if self.alias == NO_DB_ALIAS else SPARES.take(self._spares_key)
        if spare is None:
            return super().get_new_connection(conn_params)
        self.isolation_level = IsolationLevel.READ_COMMITTED
        return spare

    def _close(self) -> None:
        connection = self.connection
        # What failed is not trusted again, and what is left open in a transaction is cut: the server rolls back.
        is_sound = connection is not None and not (self.in_atomic_block or self.errors_occurred)
        if not is_sound or self.alias == NO_DB_ALIAS or not SPARES.keep(self._spares_key, connection):
            super()._close()  # type: ignore[misc]

    def close_pool(self) -> None:
        """Django calls this before it drops or copies a database."""
        SPARES.drop(self._spares_key)
