"""Where a run stands in its flow and what follows: opened, closed, turned back, parked, ended; rows and no effects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections, transaction

from conductor.core.context import RequestContext
from conductor.core.errors import HostSilent, StaleToken, is_cancel
from conductor.core.states import RunState, StepState, WaitCause
from conductor.failpoints import reach
from conductor.journal import checkpoints
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.sql.dialect import NOW, Later
from conductor.workflows import records
from conductor.workflows.draft import Draft
from conductor.workflows.flow import Flow, RemoteStep, Result, Step, Work

# These say nothing about the step: the turn is given up, and the sweep rings again when the lease has run out.
NOT_THE_STEPS_FAULT = (StaleToken, OperationalError, InterfaceError)
TRIES_UNTIL_STUCK = 5


class Course:
    """A run on its way through its flow. All that changes it belongs into a fenced transaction on the journal."""

    def __init__(self, alias: str, run: WorkflowRun, flow: Flow) -> None:
        self.alias = alias
        self.run = run
        self.flow = flow
        self.is_over = False
        self._opened: records.Record | None = None  # the record of the step under way, once it is known here
        self._is_fresh = False  # nobody has opened a step of it
        self._draft = Draft(alias, run)
        self._save = self._draft.save
        self._context = RequestContext.from_json(run.context)

    def _begin(self) -> None:
        if not self.run.flow_version:
            self._save(
                flow_version=self.flow.version, plan=self.flow.plan(has_secrets=bool(self.run.secrets)), started_at=NOW
            )
            records.tell(self.alias, self.run, "run.started")
            self._is_fresh = True
            if self.run.is_cancel_requested and self.flow.is_forward_only:
                self._save(is_cancel_requested=False)  # asked before it was known that this is not to be stopped
                records.tell(self.alias, self.run, "run.cancel_refused")
        self._proceed()

    def _proceed(self) -> None:
        """Look where the run stands: turn back, end, do what is local at once, open and send what is not."""
        while not self.is_over:
            run = self.run
            if run.direction == "do" and run.is_cancel_requested and self.flow.may_cancel_at(run.position):
                self._turn_back({"class": "Cancelled", "message": run.cancel_reason or "cancelled"})
            if run.direction == "undo":
                self._skip_what_needs_no_undo()
                if run.position == 0 and not self._try_again():
                    self._save(direction="end")
            if self._is_at_end():
                self._end()
                return
            step, index = self._next()
            if run.direction != "undo" and step.is_local_in(self._work("")):
                self._do_local(step, index)
            else:
                self._open(step, index)
                if not self._is_sent_at_once(step):
                    return

    def _open(self, step: Step, index: int) -> None:
        """Open the step's record.

        Only the first step of a turn can have been begun by somebody before, unless an operator has it undone again.
        """
        is_new = (self._is_fresh or self._opened is not None) and not self.run.orders
        last = None if is_new else self._current(index)
        self._opened = record = records.open_record(self.run, step, index, last)
        if isinstance(record, records.Opened):
            self._draft.open(record)
            if self.run.direction == "do":
                step.apply_start(self._work(self._record.step_key))

    def _current(self, index: int) -> StepRecord | None:
        self._draft.write()
        return records.current(self.alias, self.run, index)

    def _do_local(self, step: Step, index: int) -> None:
        self._open(step, index)
        record, moments = self._record, () if step.is_local else ("before", "effect")
        try:
            with self._draft.savepoint():  # what was done before it stays
                for moment in moments:
                    reach(f"{self._place(step)}.{moment}")
                self._succeed(step, step.execute(self._work(self._record.step_key)) or {})
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self._opened, record.state = record, StepState.RUNNING
            self._fail(step, records.describe(error, step, self.run))
        else:
            if moments:
                self._reach_after_commit(f"{self._place(step)}.after")

    def _is_sent_at_once(self, step: Step) -> bool:
        """Send the command of a step in the transaction that has opened it; whether all is said of the step then.

        What a dead host could be left to owe is not: whether it is silent is asked outside. Nor what fails here: the
        step's own transaction comes next, meets it again, and says so.
        """
        if not isinstance(step, RemoteStep) or self._record.state != StepState.RUNNING or self._may_be_owed():
            return False
        reach(f"{self._place(step)}.before")
        try:
            self._send(step, step.command(self._work(self._record.step_key)))
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception:
            return False
        return True

    def _send(self, step: RemoteStep, command: Any, *, is_owed: bool = False) -> None:
        """Put the command into the outbox and park; where there is nothing to do at the host, the step is done."""
        if command is None:
            self._succeed(step, {}, state=StepState.SKIPPED)
        else:
            outbox.send_command(self.alias, command, run_uuid=self.run.uuid, is_owed=is_owed)
            self._draft.wait(self._record, command.host)
            if not is_owed:
                self._park(WaitCause.HOST, command.host, settings.NOVELLA_HOST_DOWN_SECONDS)
        self._reach_after_commit(f"{self._place(step)}.sent")

    def _reach_after_commit(self, place: str) -> None:
        transaction.on_commit(partial(reach, place), using=self.alias)

    def _may_be_owed(self) -> bool:
        """What only tidies up need not wait for a dead host: it will be told when it comes back."""
        return self.run.direction == "undo" or self.flow.is_forward_only

    def _succeed(self, step: Step, result: Result, *, state: str = StepState.DONE) -> None:
        _, index = self._next()
        work = self._work(self._record.step_key)
        if self.run.direction == "undo":
            step.apply_revert(work)
            self.run.variables.pop(step.name, None)
            self._save(position=index, variables=self.run.variables)
            state = StepState.UNDONE
        else:
            if state == StepState.DONE:
                step.apply(work, result)
            self.run.variables[step.name] = dict(result)
            self._save(position=self.run.position + 1, variables=self.run.variables)
        self._draft.close(self._record, state, result=dict(result))

    def _fail(self, step: Step, error: dict[str, Any]) -> None:
        """Try again later, note what cannot be undone, or turn back; `_proceed` goes on from there."""
        _, index = self._next()
        record = self._record
        is_undo = self.run.direction == "undo"
        self._draft.write()
        state = StepState.UNDO_FAILED if is_undo else StepState.FAILED
        records.close_record(self.alias, self.run, record, state, error=error)
        retry = step.revert_retry if is_undo else step.retry
        is_final = not is_undo and step.is_final(self._work(record.step_key), error)
        if retry.allows(record.try_number) and not is_final:
            tries_until_stuck = 1 if error["class"] == HostSilent.__name__ else TRIES_UNTIL_STUCK  # who hangs took long
            if self.flow.on_stuck is not None and record.try_number == tries_until_stuck:
                self.flow.on_stuck.apply(self._work(record.step_key), {})
            self._park(WaitCause.TIMER, f"next try of {step.title}", retry.pause(record.try_number))
        elif self.run.direction == "end":
            self._finish(RunState.NEEDS_OPERATOR, self.run.error or error)
        elif is_undo:
            self._save(position=index, leftovers=[*self.run.leftovers, f"{step.title}: {error['message']}"])
        else:
            self._turn_back(error)

    def _turn_back(self, error: dict[str, Any]) -> None:
        """From here backwards, the step under way included: it may have done a part."""
        record = self._record_here()
        if record is not None and record.state in records.OPEN_STATES:
            OutboxMessage.objects.using(self.alias).filter(step_key=record.step_key).delete()
            records.close_record(self.alias, self.run, record, StepState.CANCELLED)
        position = self.run.position + (record is not None)
        self._save(direction="undo", position=position, error=self.run.error or error, state=RunState.UNDOING)
        records.tell(self.alias, self.run, "run.undoing", error=error)

    def _record_here(self) -> records.Record | None:
        """The newest record of the step at the run's position, most often the one that this turn has opened."""
        known, run = self._opened, self.run
        if known and (known.index, known.direction, known.attempt) == (run.position, run.direction, run.attempt):
            return known
        return self._current(run.position)

    def _skip_what_needs_no_undo(self) -> None:
        position = self.run.position
        only = (self.run.orders or {}).get("only")  # an operator has this undone again, and nothing else
        while position and not (self.flow.steps[position - 1].has_revert and (only is None or position - 1 in only)):
            position -= 1
        if position != self.run.position:
            self._save(position=position)

    def _try_again(self) -> bool:
        """All is undone: begin the next attempt where one is left and could do better."""
        if self.flow.max_attempts == 1 or self.run.is_cancel_requested or self.run.leftovers or self.run.orders:
            return False
        error = checkpoints.last_failure(connections[self.alias], self.run.pk, self.run.attempt)
        is_used_up = self.run.attempt >= self.flow.max_attempts and not error.get("is_ordered")
        if not error.get("is_reschedulable") or is_used_up or not self.flow.next_attempt(self._work("")):
            return False
        self._save(direction="do", attempt=self.run.attempt + 1, state=RunState.RUNNING)
        records.tell(self.alias, self.run, "run.rescheduled", error=error)
        return True

    def _end(self) -> None:
        if self.run.direction == "do":
            self._finish(RunState.DONE, None)
        elif self.run.leftovers:
            self._finish(RunState.FAILED_NOT_CLEAN, self.run.error)
        else:
            self._finish(RunState.CANCELLED if self._is_cancelled() else RunState.FAILED_UNDONE, self.run.error)

    def _finish(self, state: str, error: Mapping[str, Any] | None) -> None:
        self._save(state=state, error=error, owner=None, lease_expires_at=None, finished_at=NOW, orders=None)
        records.tell(self.alias, self.run, "run.ended", state=state, error=error)
        if state != RunState.NEEDS_OPERATOR:  # it goes on, and what it works on is nobody else's until then
            self._draft.write_instance()
            outbox.close_run(self.alias, self.run)
        self.is_over = True

    def _park(self, cause: WaitCause, detail: str, seconds: float) -> None:
        """Let go until `seconds` have passed or somebody rings; no thread waits."""
        must_look_again = self.run.is_cancel_requested and self.flow.may_cancel_at(self.run.position)
        if must_look_again and self.run.direction == "do":
            seconds = 0.0
            outbox.ring_after_commit(self.alias, self.run.uuid)
        waits_for = {"cause": cause, "detail": detail}
        self._save(
            state=RunState.WAITING, waits_for=waits_for, wake_at=Later(seconds), owner=None, lease_expires_at=None
        )
        records.tell(self.alias, self.run, "run.waiting", waits_for=waits_for)
        self.is_over = True

    # -- where the run stands ---------------------------------------------------------------------------------

    def _next(self) -> tuple[Step, int]:
        """The step that is next in the run's direction, and its index."""
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

    def _place(self, step: Step) -> str:
        return f"{self.flow.name}.{self.run.direction}.{step.name}"

    def _work(self, step_key: str) -> Work:
        """For code that runs in the transaction which is open."""
        token, changes = self.run.fencing_token, self._draft.instance
        return Work(self.alias, self.run, self._context, step_key, token, changes)

    @property
    def _record(self) -> records.Record:
        assert self._opened is not None, "every step is opened by the transaction before it"
        return self._opened
