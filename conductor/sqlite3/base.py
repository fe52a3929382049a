"""The database engine `conductor.sqlite3`; Django finds it by this module's name."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3 import base

from conductor.core import time_budget

STEPS_BETWEEN_LOOKS = 100_000  # of SQLite's machine: some milliseconds


class DatabaseWrapper(base.DatabaseWrapper):
    """Interrupts a statement that reads when the time budget of its request is spent.

    Never inside of a transaction: an interrupted write would undo what others have written in the same one.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        driver = super().get_new_connection(conn_params)
        driver.set_progress_handler(lambda: time_budget.is_over() and not driver.in_transaction, STEPS_BETWEEN_LOOKS)
        return driver

    def _cursor(self, name: str | None = None) -> Any:
        if not self.in_atomic_block:
            time_budget.check()
        return super()._cursor(name)  # type: ignore[misc]
