"""The row of a run that is under work: changed in memory at once, written once per transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connections, transaction

from conductor.journal import checkpoints
from conductor.journal.models import WorkflowRun
from conductor.sql.dialect import Later


class RunRow:
    """Gathers the changes of a transaction that holds the row. Each write keeps the lease, unless it ends it."""

    def __init__(self, alias: str, run: WorkflowRun) -> None:
        self._alias = alias
        self._run = run
        self._unwritten: dict[str, Any] = {}

    def save(self, **values: Any) -> None:
        """Change the run; the row follows with the next `write`."""
        self._unwritten |= values
        for name, value in values.items():
            setattr(self._run, name, value)

    def write(self) -> None:
        """Before the transaction ends, and before code of a step runs in it, which may read the row."""
        if self._unwritten:
            lease = Later(settings.NOVELLA_LEASE_SECONDS)
            checkpoints.save(connections[self._alias], self._run.pk, {"lease_expires_at": lease, **self._unwritten})
            self._unwritten = {}

    def reread(self) -> None:
        """The run as the database has it: what a transaction changed before it was rolled back is forgotten."""
        self._unwritten = {}
        self._run.refresh_from_db(using=self._alias)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What fails inside leaves the run as it was before, in the database and in memory."""
        self.write()
        try:
            with transaction.atomic(using=self._alias):
                yield
                self.write()
        except Exception:
            self.reread()
            raise
