"""All state transitions of a run: resume, advance, suspend, fail, compensate, complete.

             ┌────────── next attempt ──────────┐
             ▼                                  │
do: step 1 → step 2 → … ─ failure, cancel → undo: … → step 2 → step 1 → end: on_failure, on_cancel
             │                                  │
             └── complete                       └── suspended while a host works, or until a retry is due

Each transition is implemented once, for every database. Typically it only changes rows, without code of a step: then it
is committed by itself, in one write that includes the fence. Otherwise it gets a fenced transaction. The caller does
not choose, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections, transaction

from conductor import events
from conductor.core import messages
from conductor.core.context import RequestContext
from conductor.core.errors import HostUnresponsive, StaleToken, is_cancel
from conductor.core.states import RunState, StepState, WaitCause
from conductor.db.dialect import NOW, SecondsFromNow
from conductor.db.transactions import write_tx
from conductor.failpoints import reach
from conductor.journal import locks, statements
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.workflows.engine import records
from conductor.workflows.engine.unit_of_work import UnitOfWork
from conductor.workflows.flow import Flow, RemoteCall, RemoteStep, Result, Step, StepContext

# Not errors of the step: the executor gives the run up, and the sweep wakes it when its lease has expired.
NOT_THE_STEPS_FAULT = (StaleToken, OperationalError, InterfaceError)
TRIES_UNTIL_STUCK = 5


class Transitions:
    """The transitions of one claimed run. Changes are collected in a `UnitOfWork`."""

    def __init__(self, alias: str, run: WorkflowRun, flow: Flow) -> None:
        self.alias = alias
        self.run = run
        self.flow = flow
        self.is_over = False  # suspended or ended: the run has no owner any more
        self.unit = UnitOfWork(alias, run)
        self._opened: records.Record | None = None  # the record of the step under way, once it is known here
        self._is_fresh = False  # no step of the run was ever opened
        self._is_inside = False
        self._must_reread = False
        self._context = RequestContext.from_json(run.context)

    # -- transactions -----------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a fenced transaction on the journal, and read the run again, as its cancellation may have been
        requested.
        """
        with write_tx(self.alias):
            self.context_of("").guard()
            if self._must_reread:  # the previous transaction was rolled back, or refused
                self.unit.reread()
                self._opened = None
                self._open(*self.next_step())
            self._must_reread = True
            with self.inside():
                yield
        self._must_reread = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Context inside an open transaction that fences or claims this run. Changes are written at its end."""
        self._is_inside = True
        try:
            yield
            self.unit.write()
        finally:
            self._is_inside = False

    def _commit(self, change: Callable[[], None], *, is_rows_only: bool) -> None:
        """Make a change in the open transaction, by itself, or in a transaction of its own."""
        if self._is_inside:
            change()
        elif not (is_rows_only and not self._must_reread and self._is_committed_alone(change)):
            with self.transaction():
                change()

    def _is_committed_alone(self, change: Callable[[], None]) -> bool:
        self._must_reread = True  # unless it is written
        is_written = self.unit.commit_alone(change)
        if not is_written:
            self.is_over = False
        self._must_reread = not is_written
        return is_written

    # -- the transitions --------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Resume the run: store its plan at the first time, and open its current step. Call it inside a transaction."""
        if not self.run.flow_version:
            self.unit.save(
                flow_version=self.flow.version, plan=self.flow.plan(has_secrets=bool(self.run.secrets)), started_at=NOW
            )
            self.unit.emit("run.started")
            self._is_fresh = True
            if self.run.is_cancel_requested and self.flow.is_forward_only:
                self.unit.save(is_cancel_requested=False)  # requested before the flow was known to be uncancellable
                self.unit.emit("run.cancel_refused")
        self.proceed()
        self._is_fresh = False

    def advance(self, step: Step, result: Result, *, state: str = StepState.DONE) -> None:
        """Close the step as done, or undone when the run is rolled back, and proceed."""

        def change() -> None:
            self._close_step(step, result, state=state)
            self.proceed()

        self._commit(change, is_rows_only=self._is_known() and self._advances_by_rows(step))

    def fail(self, step: Step, error: dict[str, Any]) -> None:
        """Close the step as failed: retry it later, record the uncompensated effect of a failed undo, or roll back."""

        def change() -> None:
            self._fail_step(step, error)
            self.proceed()

        self._commit(change, is_rows_only=self._is_known() and self._fails_by_rows(step))

    def suspend(self, cause: WaitCause, detail: str, seconds: float, call: RemoteCall | None = None) -> None:
        """Release the run until `seconds` have passed or a message wakes it. No thread waits.

        The request of a `call` is sent once this is committed, so that its reply finds a run that waits.
        """
        self._commit(lambda: self._suspend(cause, detail, seconds, call), is_rows_only=False)

    def _suspend(self, cause: WaitCause, detail: str, seconds: float, call: RemoteCall | None = None) -> None:
        must_look_again = self.run.is_cancel_requested and self.flow.may_cancel_at(self.run.position)
        if must_look_again and self.run.direction == "do":
            seconds = 0.0
            outbox.notify_after_commit(self.alias, self.run.uuid)
        elif call is not None:
            self.unit.note_progress(self.record, call.progress)
            transaction.on_commit(call.send, using=self.alias)
        waits_for = {"cause": cause, **messages.fields(detail, "detail")}
        self.unit.save(
            state=RunState.WAITING,
            waits_for=waits_for,
            wake_at=SecondsFromNow(seconds),
            owner=None,
            lease_expires_at=None,
        )
        self.unit.emit("run.waiting", waits_for=waits_for)
        self.is_over = True

    def compensate(self, error: dict[str, Any]) -> None:
        """Roll back: compensate from here on, including the current step, which may have taken effect in part.

        Call it inside a transaction, or from `fail`.
        """
        record = self._record_here()
        if record is not None and record.state in records.OPEN_STATES:
            self.forget_command(record)
            self.unit.close(record, StepState.CANCELLED)
        position = self.run.position + (record is not None)
        self.unit.save(direction="undo", position=position, error=self.run.error or error, state=RunState.UNDOING)
        self.unit.emit("run.undoing", error=error)

    def complete(self, state: str, error: Mapping[str, Any] | None) -> None:
        """End the run in `state`, and release its locks unless an operator has to decide first."""
        kind = events.kind_of_end(self.run, state)
        self.unit.save(state=state, error=error, owner=None, lease_expires_at=None, finished_at=NOW, orders=None)
        self.unit.emit(kind, state=state, error=error)
        if state != RunState.NEEDS_OPERATOR:  # the run keeps its locks, as it will continue
            self.unit.free_locks()
        self.is_over = True

    # -- interventions of operators ---------------------------------------------------------------------------

    def settle(self, state: StepState, result: Result, *, evidence: Mapping[str, Any]) -> None:
        """Close the current or failed step as done by hand ("forced") or left out ("skipped")."""
        step, index = self.next_step()
        record = self.current_record(index)
        assert record is not None, "only a step that was begun can be settled"
        self._opened = record
        self.forget_command(record)
        left = f"{step.title}: left as it is by {evidence['confirmed_by']}: {evidence['evidence']}"
        if self.run.direction == "undo" and state != StepState.FORCED:
            self.unit.save(position=index, uncompensated=[*self.run.uncompensated, left])
            self.unit.close(record, state, result={**evidence, **result})
        else:
            self._close_step(step, result, state=state, kept={**evidence, **result})
        self._opened = None

    def need_operator(self, kind: str, error: Mapping[str, Any]) -> None:
        """Suspend the run, with its locks, for an operator after a failed intervention. Call it inside a
        transaction.
        """
        self.unit.save(orders=None, state=RunState.NEEDS_OPERATOR, owner=None, lease_expires_at=None, finished_at=NOW)
        self.unit.emit(kind, error=error)
        self.is_over = True

    def forget_command(self, record: records.Record) -> None:
        """Delete a command for which no run waits. The host refuses it from now on by its token."""
        OutboxMessage.objects.using(self.alias).filter(step_key=record.step_key).delete()

    # -- parts of transitions ---------------------------------------------------------------------------------

    def proceed(self) -> None:
        """Proceed from the run's position: roll back or end; execute local steps at once, open and send others."""
        while not self.is_over:
            run = self.run
            if run.direction == "do" and run.is_cancel_requested and self.flow.may_cancel_at(run.position):
                self.compensate({"class": "Cancelled", "message": run.cancel_reason or "cancelled"})
            if run.direction == "undo":
                self._skip_what_needs_no_undo()
                if run.position == 0 and not self._begin_next_attempt():
                    self.unit.save(direction="end")
            if self._is_at_end():
                self._end()
                return
            step, index = self.next_step()
            if run.direction != "undo" and step.is_local_in(self.context_of("")):
                self._do_local(step, index)
            else:
                self._open(step, index)
                if not self._is_sent_at_once(step):
                    return

    def _open(self, step: Step, index: int) -> None:
        """Open the step's record.

        An existing record is read only where an earlier owner may have begun the step: after a claim, or where an
        operator requested its undo again.
        """
        is_new = (self._is_fresh or self._opened is not None) and not self.run.orders
        last = None if is_new else self.current_record(index)
        self._opened = record = records.open_record(self.run, step, index, last)
        if isinstance(record, records.OpenRecord):
            self.unit.open(record)
            if self.run.direction == "do":
                step.on_start(self.context_of(self.record.step_key))

    def _do_local(self, step: Step, index: int) -> None:
        self._open(step, index)
        record, moments = self.record, () if step.is_local else ("before", "effect")
        try:
            with self.unit.savepoint():  # earlier changes of the transaction stay
                for moment in moments:
                    reach(f"{self.place_of(step)}.{moment}")
                self._close_step(step, step.execute(self.context_of(self.record.step_key)) or {})
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self._opened, record.state = record, StepState.RUNNING
            self._fail_step(step, records.describe(error, step, self.run))
        else:
            if moments:
                self.reach_after_commit(f"{self.place_of(step)}.after")

    def _is_sent_at_once(self, step: Step) -> bool:
        """Send a remote step's command in the transaction that has opened the step. Return whether it was sent.

        A command that may be deferred is not sent here, because the check whether its host is unresponsive is made
        outside. A step does not fail here either: its own transaction comes next, gets the error again, and records it.
        """
        if not isinstance(step, RemoteStep) or self.record.state != StepState.RUNNING or self.may_be_deferred():
            return False
        reach(f"{self.place_of(step)}.before")
        try:
            self.send(step, step.command(self.context_of(self.record.step_key)))
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception:
            return False
        return True

    def send(self, step: RemoteStep, command: Any, *, is_deferred: bool = False) -> None:
        """Put the command into the outbox and suspend. A step without a command is skipped."""
        if command is None:
            self._close_step(step, {}, state=StepState.SKIPPED)
        else:
            outbox.send_command(self.alias, command, run_uuid=self.run.uuid, is_deferred=is_deferred)
            self.unit.wait(self.record, command.host)
            if not is_deferred:
                self._suspend(WaitCause.HOST, command.host, settings.NOVELLA_HOST_DOWN_SECONDS)
        self.reach_after_commit(f"{self.place_of(step)}.sent")

    def may_be_deferred(self) -> bool:
        """Whether the run may continue without the host. Cleanup commands are deferred until the host is back."""
        return self.run.direction == "undo" or self.flow.is_forward_only

    def _close_step(
        self, step: Step, result: Result, *, state: str = StepState.DONE, kept: Result | None = None
    ) -> None:
        """Close the step and commit its effect in the journal's database. `kept` replaces the result in its record."""
        _, index = self.next_step()
        context, variables = self.context_of(self.record.step_key), self.run.variables
        if self.run.direction == "undo":
            step.commit_revert(context)
            self.unit.save(position=index, variables={key: v for key, v in variables.items() if key != step.name})
            state = StepState.UNDONE if kept is None else state
        else:
            if state != StepState.SKIPPED:
                step.commit(context, result)
            self.unit.save(position=self.run.position + 1, variables={**variables, step.name: dict(result)})
        self.unit.close(self.record, state, result=dict(result if kept is None else kept))

    def _fail_step(self, step: Step, error: dict[str, Any]) -> None:
        _, index = self.next_step()
        record, is_undo = self.record, self.run.direction == "undo"
        self.unit.close(record, StepState.UNDO_FAILED if is_undo else StepState.FAILED, error=error)
        retry = step.revert_retry if is_undo else step.retry
        is_left = retry.allows(record.try_number)
        if is_left and (is_undo or not step.is_final(self.context_of(record.step_key), error)):
            tries_until_stuck = (
                1 if error["class"] == HostUnresponsive.__name__ else TRIES_UNTIL_STUCK
            )  # after long timeout
            if self.flow.on_stuck is not None and record.try_number == tries_until_stuck:
                self.flow.on_stuck.commit(self.context_of(record.step_key), {})
            self._suspend(WaitCause.TIMER, f"next try of {step.title}", retry.pause(record.try_number))
        elif self.run.direction == "end":
            self.complete(RunState.NEEDS_OPERATOR, self.run.error or error)
        elif is_undo:
            self.unit.save(position=index, uncompensated=[*self.run.uncompensated, f"{step.title}: {error['message']}"])
        else:
            self.compensate(error)

    def _record_here(self) -> records.Record | None:
        """Return the newest record of the step at the run's position, which was usually opened here."""
        known, run = self._opened, self.run
        if known and (known.index, known.direction, known.attempt) == (run.position, run.direction, run.attempt):
            return known
        return self.current_record(run.position)

    def _skip_what_needs_no_undo(self) -> None:
        only = (self.run.orders or {}).get("only")  # an operator has requested to undo only these steps again
        position = _next_undo(self.flow, self.run.position, only)
        if position != self.run.position:
            self.unit.save(position=position)

    def _begin_next_attempt(self) -> bool:
        """Begin the next attempt after a rollback, if one is left and could succeed. Return whether it did."""
        if self.flow.max_attempts == 1 or self.run.is_cancel_requested or self.run.uncompensated or self.run.orders:
            return False
        error = statements.last_failure(connections[self.alias], self.run.pk, self.run.attempt)
        is_used_up = self.run.attempt >= self.flow.max_attempts and not error.get("is_ordered")
        if not error.get("is_reschedulable") or is_used_up or not self.flow.next_attempt(self.context_of("")):
            return False
        self.unit.save(direction="do", attempt=self.run.attempt + 1, state=RunState.RUNNING)
        self.unit.emit("run.rescheduled", error=error)
        return True

    def _end(self) -> None:
        if self.run.direction == "do":
            self.complete(RunState.DONE, None)
        elif self.run.uncompensated:
            self.complete(RunState.FAILED_NOT_CLEAN, self.run.error)
        else:
            self.complete(RunState.CANCELLED if self._is_cancelled() else RunState.FAILED_UNDONE, self.run.error)

    # -- which transitions only change rows -------------------------------------------------------------------

    def _is_known(self) -> bool:
        """Whether nothing was requested of the run, and it is not ending."""
        return not (self.run.direction == "end" or self.run.is_cancel_requested or self.run.orders)

    def _advances_by_rows(self, step: Step) -> bool:
        if self.run.direction == "undo":
            return not _has(step, "commit_revert") and _next_undo(self.flow, self.run.position - 1) > 0
        if _has(step, "commit"):
            return False
        position = self.run.position + 1
        if position == len(self.flow.steps):
            return self._ends_by_rows()
        following = self.flow.steps[position]
        is_sent_at_once = isinstance(following, RemoteStep) and not self.flow.is_forward_only
        has_code = following.is_local or any(_has(following, name) for name in ("is_local_in", "on_start"))
        return not (is_sent_at_once or has_code)

    def _ends_by_rows(self) -> bool:
        """Whether the run's end only changes rows.

        On PostgreSQL another transaction may add a wait at the same time, so waiters are read.
        """
        if connections[self.alias].vendor == "postgresql" or self.run.secrets:
            return False
        return not locks.cross_database(self.alias, self.run.resources or ())

    def _fails_by_rows(self, step: Step) -> bool:
        """Whether the run is rolled back at once, to a step with an undo."""
        is_tried_again = step.retry.allows(self.record.try_number)
        return self.run.direction == "do" and not is_tried_again and _next_undo(self.flow, self.run.position + 1) > 0

    # -- the run's position -----------------------------------------------------------------------------------

    def next_step(self) -> tuple[Step, int]:
        """Return the next step in the run's direction, and its index."""
        if self.run.direction == "end":
            final = self._final_step()
            assert final is not None
            return final, len(self.flow.steps)
        index = self.run.position - (self.run.direction == "undo")
        return self.flow.steps[index], index

    def _is_at_end(self) -> bool:
        if self.run.direction == "end":
            return self.run.position > 0 or self._final_step() is None
        return self.run.direction == "do" and self.run.position == len(self.flow.steps)

    def _final_step(self) -> Step | None:
        return self.flow.on_cancel if self._is_cancelled() else self.flow.on_failure

    def _is_cancelled(self) -> bool:
        return is_cancel(self.run.error)

    def current_record(self, index: int) -> StepRecord | None:
        """Return the newest record of the step at `index` in the run's direction and attempt."""
        self.unit.write()
        return records.current(self.alias, self.run, index)

    @property
    def record(self) -> records.Record:
        """The record of the current step."""
        assert self._opened is not None, "every step is opened by the transaction before it"
        return self._opened

    def reread(self) -> None:
        """Discard the run's state in memory, and read it again."""
        self.unit.reread()
        self._opened, self._must_reread = None, False

    def restore(self, record: records.Record) -> None:
        """Restore the state before the step's answer was processed, after a rollback to a savepoint."""
        self._opened, record.state, self.is_over = record, StepState.WAITING, False

    def place_of(self, step: Step) -> str:
        """Return the step's name among the points at which tests kill a process."""
        return f"{self.flow.name}.{self.run.direction}.{step.name}"

    def reach_after_commit(self, place: str) -> None:
        transaction.on_commit(partial(reach, place), using=self.alias)

    def context_of(self, step_key: str) -> StepContext:
        """Return the context for code of a step in the open transaction."""
        token, changes = self.run.fencing_token, self.unit.instance
        return StepContext(self.alias, self.run, self._context, step_key, token, changes)


def _next_undo(flow: Flow, position: int, only: list[int] | None = None) -> int:
    """Return `position` without preceding steps that need no undo. With `only`, only these steps are undone."""
    while position and not (flow.steps[position - 1].has_revert and (only is None or position - 1 in only)):
        position -= 1
    return position


def _has(step: Step, method: str) -> bool:
    """Whether the step overrides this method."""
    return getattr(type(step), method) is not getattr(Step, method)
