"""What a transaction changes of a run: in memory at once, in the database with its end, each row once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from django.conf import settings
from django.db import connections

from conductor.core.states import StepState
from conductor.journal import checkpoints
from conductor.journal.models import WorkflowRun
from conductor.sql.dialect import Later
from conductor.sql.savepoints import savepoint
from conductor.workflows import records
from conductor.workflows.records import Opened, Record
from conductor.workflows.steps import instance_rows


class Draft:
    """Gathers what is said of the run's row, and the records of steps that are opened, some of them to end at once.

    Code of a step that runs in the transaction finds all of it at `work.run`, and none of it in the database yet.
    Each write keeps the lease, unless it ends it.
    """

    def __init__(self, alias: str, run: WorkflowRun) -> None:
        self._alias = alias
        self._connection = connections[alias]  # a turn is one thread's
        self._run = run
        self.instance: dict[str, Any] = {}  # what the steps' code says of the run's instance
        self._forget()

    def _forget(self) -> None:
        self._unwritten: dict[str, Any] = {}
        self._opened: Opened | None = None
        self._ended: list[Opened] = []
        self.instance.clear()

    def save(self, **values: Any) -> None:
        """Change the run; the row follows with the next `write`."""
        self._unwritten |= values
        for name, value in values.items():
            setattr(self._run, name, value)

    def open(self, record: Opened) -> None:
        """Begin a step; its record follows with the next `write`. The one before it has ended."""
        self._opened = record
        records.tell(self._alias, self._run, "step.started", record)

    def close(self, record: Record, state: str, *, result: dict[str, Any]) -> None:
        """End a step that has not failed."""
        if record is not self._opened:
            records.close_record(self._alias, self._run, record, state, result=result)
            return
        record.state, record.result = str(state), result
        self._opened = None
        self._ended.append(record)
        records.tell_end(self._alias, self._run, record)

    def wait(self, record: Record, host: str) -> None:
        """Have the step wait for what its host answers to the newest owner's command."""
        waiting = {"state": StepState.WAITING.value, "host": host, "fencing_token": self._run.fencing_token}
        for name, value in waiting.items():
            setattr(record, name, value)
        if record is not self._opened:
            checkpoints.RECORDS.update(self._connection, record.pk, **waiting)

    def write(self) -> None:
        """Before the transaction ends, and before what it has changed is looked up in the database."""
        connection = self._connection
        self.write_instance()
        if self._ended:
            checkpoints.open_ended_steps(connection, self._ended)
            self._ended = []
        if self._opened is not None:
            (self._opened.pk,) = checkpoints.open_steps(connection, [checkpoints.step_row(self._opened)])
            self._opened = None
        if self._unwritten:
            lease = Later(settings.NOVELLA_LEASE_SECONDS)
            checkpoints.save(connection, self._run.pk, {"lease_expires_at": lease, **self._unwritten})
            self._unwritten = {}

    def write_instance(self) -> None:
        """As all others do who change an instance and its locks: before its locks are freed."""
        instance_rows.write(self._alias, self._run, self.instance)

    def reread(self) -> None:
        """The run as the database has it: what a transaction changed before it was rolled back is forgotten."""
        self._forget()
        self._run.refresh_from_db(using=self._alias)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What fails inside leaves the run as it was before, in the database and in memory."""
        unwritten = {name: copy(value) for name, value in self._unwritten.items()}
        opened, ended, instance = self._opened, list(self._ended), dict(self.instance)
        try:
            with savepoint(self._alias):
                yield
        except Exception:
            self.reread()
            self._opened, self._ended = opened, ended
            self.instance |= instance
            self.save(**unwritten)
            raise
