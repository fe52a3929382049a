"""Unit of work: the changes of a run in one transaction, made in memory at once and written at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

from django.conf import settings
from django.db import connections

from conductor import events
from conductor.core.states import StepState
from conductor.db.dialect import SecondsFromNow
from conductor.db.transactions import BatchWriter, savepoint
from conductor.journal import statements
from conductor.journal.models import WorkflowRun
from conductor.journal.statements import StaleTransition, Transition
from conductor.rpc import outbox
from conductor.workflows.engine import records
from conductor.workflows.engine.records import OpenRecord, Record
from conductor.workflows.steps import instance_rows

# SQLite has one writer at a time, and the sync at the end of a transaction costs most. So one of several concurrent
# workers writes for all of them (group commit). PostgreSQL groups commits by itself.
BATCHES = BatchWriter(statements.write_transitions)


class UnitOfWork:
    """Collects changes of a run's row, of the records of its steps, and of the instance that it works on.

    Code of a step in the transaction sees them in `context.run`, but not in the database yet. Each write renews the
    lease, unless it ends it. `commit_alone` is the short form for a change of rows only: it needs no open transaction,
    as the statement that writes the change also checks the fence.
    """

    def __init__(self, alias: str, run: WorkflowRun) -> None:
        self._alias = alias
        self._connection = connections[alias]  # an executor belongs to one thread
        self._run = run
        self.instance: dict[str, Any] = {}  # the steps' changes of the run's instance
        self._forget()

    def _forget(self) -> None:
        self._unwritten: dict[str, Any] = {}
        self._opened: OpenRecord | None = None
        self._ended: list[OpenRecord] = []
        self._alone: _Alone | None = None
        self.instance.clear()

    @property
    def is_alone(self) -> bool:
        """Whether `commit_alone` is collecting a change. Nothing may be read or written then."""
        return self._alone is not None

    def save(self, **values: Any) -> None:
        """Change the run. The next `write` writes the row."""
        self._unwritten |= values
        for name, value in values.items():
            setattr(self._run, name, value)

    def open(self, record: OpenRecord) -> None:
        """Begin a step, whose predecessor has ended. The next `write` writes its record."""
        self._opened = record
        self.emit("step.started", record)

    def close(self, record: Record, state: str, **values: Any) -> None:
        """End a step. `values` are JSON columns of its record: `result` or `error`."""
        if record is self._opened and "error" not in values:
            record.result = values.get("result")
            self._opened = None
            self._ended.append(record)
        elif self._alone is not None:
            self._alone.closed = (record.step_key, state, values)
        else:
            self.write_steps()
            statements.close_step(self._connection, record.step_key, state, values)
        record.state = str(state)
        self.emit(records.kind_of_end(state), record, error=values.get("error"))

    def wait(self, record: Record, host: str) -> None:
        """Set the step to wait for its host's answer to the current owner's command."""
        waiting = {"state": StepState.WAITING.value, "host": host, "fencing_token": self._run.fencing_token}
        for name, value in waiting.items():
            setattr(record, name, value)
        if record is not self._opened:
            statements.RECORDS.update(self._connection, record.pk, **waiting)

    def note_progress(self, record: Record, progress: Mapping[str, Any]) -> None:
        """Store the progress of a step that waits for another process."""
        self.write_steps()
        statements.RECORDS.update(self._connection, record.pk, progress=dict(progress))

    def emit(self, kind: str, record: Record | None = None, **data: Any) -> None:
        """Append an event about the run and the step."""
        event = records.event_of(self._run, kind, record, **data)
        if self._alone is None:
            events.append_event(self._alias, event)
        else:
            self._alone.events.append(event)

    def free_locks(self) -> None:
        """Release the locks of the ended run, and wake the runs that wait for them."""
        if self._alone is not None:
            self._alone.frees_locks = True
            return
        self.write_instance()
        outbox.close_run(self._alias, self._run)

    def write(self) -> None:
        """Write all changes: before the transaction ends, and before they are read from the database."""
        self.write_instance()
        self.write_steps()
        if self._unwritten:
            statements.save_run(self._connection, self._run.pk, self._with_lease())
            self._unwritten = {}

    def write_steps(self) -> None:
        """Insert the records of begun steps, those that have ended already first."""
        if self._ended:
            statements.open_ended_steps(self._connection, self._ended)
            self._ended = []
        if self._opened is not None:
            (self._opened.pk,) = statements.open_steps(self._connection, [statements.step_row(self._opened)])
            self._opened = None

    def write_instance(self) -> None:
        """Write the instance before its locks are released, in the same order as all others."""
        instance_rows.write(self._alias, self._run, self.instance)

    def commit_alone(self, change: Callable[[], None]) -> bool:
        """Make a change of rows only, and commit it in one write.

        Returns:
            False where the run has another owner, its cancellation was requested, or its locks may have waiters.
                Nothing is written then, and the run must be read again.
        """
        self._alone = gathered = _Alone()
        try:
            change()
            transition = self._as_transition(gathered)
        finally:
            opened = self._opened
            self._forget()
        if not self._is_committed(transition):
            return False
        if opened is not None:
            opened.pk = transition.opened_id
        events.announce(self._alias, gathered.events, transition.numbers)
        return True

    def _is_committed(self, transition: Transition) -> bool:
        if self._connection.vendor == "postgresql":
            return statements.write_transition(self._connection, transition)
        try:
            BATCHES.write(self._connection, transition)
        except StaleTransition:
            return False
        return transition.is_written

    def _as_transition(self, gathered: _Alone) -> Transition:
        assert gathered.closed is not None, "each step ends before the next one begins"
        step_key, state, values = gathered.closed
        return Transition(
            run=statements.change_of_run(self._run.pk, self._run.fencing_token, self._with_lease()),
            closed=statements.end_of_step(step_key, state, values),
            opened=None if self._opened is None else statements.step_row(self._opened),
            events=[event.row() for event in gathered.events],
            frees_locks_of=self._run.pk if gathered.frees_locks else None,
        )

    def _with_lease(self) -> Mapping[str, Any]:
        return {"lease_expires_at": SecondsFromNow(settings.NOVELLA_LEASE_SECONDS), **self._unwritten}

    def reread(self) -> None:
        """Read the run from the database, and discard changes of a transaction that was rolled back."""
        self._forget()
        self._run.refresh_from_db(using=self._alias)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Context that restores the run in the database and in memory after a failure inside."""
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


class _Alone:
    """A change that is committed alone, without the run's row and the record that it opens."""

    def __init__(self) -> None:
        self.closed: tuple[str, str, Mapping[str, Any]] | None = None
        self.events: list[events.NewEvent] = []
        self.frees_locks = False
