"""The database engine `conductor.db.sqlite3`; Django finds it by this module's name."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

from conductor.core import time_budget
from conductor.db.group_commit import CommitParticipant

STEPS_BETWEEN_LOOKS = 100_000  # of SQLite's virtual machine: some milliseconds


class DatabaseWrapper(base.DatabaseWrapper):
    """Begins and ends transactions in turn with the other writers of this process, and shares commits with them.

    It interrupts a reading statement when the time budget of its request is used up, but never inside a transaction: an
    interrupted write would undo the parts of others in the same one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._part: CommitParticipant | None = None  # this connection's part, while it is in a transaction
        self._failure: BaseException | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        driver = super().get_new_connection(conn_params)
        driver.set_progress_handler(lambda: time_budget.is_over() and not driver.in_transaction, STEPS_BETWEEN_LOOKS)
        return driver

    def take_failure(self) -> BaseException | None:
        """Return and clear the error of the shared commit that undid a transaction of this connection."""
        failure, self._failure = self._failure, None
        return failure

    def _cursor(self, name: str | None = None) -> Any:
        if not self.in_atomic_block:
            time_budget.check()
        return super()._cursor(name)  # type: ignore[misc]

    def _start_transaction_under_autocommit(self) -> None:
        self._failure = None
        self._part = CommitParticipant(self)

    def _commit(self) -> None:
        part, self._part = self._part, None
        if part is None:
            super()._commit()  # type: ignore[misc]
        else:
            part.end()

    def _rollback(self) -> None:
        part, self._part = self._part, None
        if part is None:
            super()._rollback()  # type: ignore[misc]
            return
        try:
            part.undo()
        except OperationalError as error:
            self._failure = error

    def _set_autocommit(self, autocommit: bool) -> None:
        if self._part is None and self.connection is not None and self.connection.isolation_level is not None:
            super()._set_autocommit(autocommit)  # type: ignore[misc]

    def _close(self) -> None:
        if self._part is not None:  # the parts of others must stay
            self._rollback()
        super()._close()  # type: ignore[misc]
