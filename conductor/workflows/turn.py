"""One worker's turn at a run: from the claim until it parks, ends or is fenced out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections, transaction

from conductor.cells.silence import is_silent
from conductor.core.context import RequestContext
from conductor.core.errors import HostSilent, StaleToken, is_cancel
from conductor.core.states import RunState, StepState, WaitCause
from conductor.failpoints import reach
from conductor.journal import checkpoints
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc import outbox
from conductor.sql.dialect import NOW, Later
from conductor.transactions import write_tx
from conductor.workflows import leases, quiet_hosts, records, straight_on
from conductor.workflows.flow import Flow, NotYet, RemoteStep, Result, Step, Work
from conductor.workflows.run_row import RunRow

# These say nothing about the step: the turn is given up, and the sweep rings again when the lease has run out.
NOT_THE_STEPS_FAULT = (StaleToken, OperationalError, InterfaceError)
TRIES_UNTIL_STUCK = 5


class Turn:
    """Takes a claimed run through its flow. Every transaction on the journal begins with the fence."""

    def __init__(self, alias: str, run: WorkflowRun, flow: Flow) -> None:
        self.alias = alias
        self.run = run
        self.flow = flow
        self.is_over = False
        self._opened: records.Record | None = None  # the record of the step under way, once this turn knows it
        self._has_begun = False
        self._row = RunRow(alias, run)
        self._save = self._row.save
        self._must_reread = False
        self._context = RequestContext.from_json(run.context)

    def begin(self) -> None:
        """Open the step that the run stands at, and take its answer when it is there.

        Call it in the transaction that made this worker the owner: what holds there needs no fence.
        """
        self._has_begun = True
        self._begin()
        step = None if self.is_over else self._next()[0]
        if isinstance(step, RemoteStep) and self._record.state == StepState.WAITING:
            self._take_at_once(step)
        self._row.write()

    def drive(self) -> None:
        """Go on until the run parks or ends. Raises StaleToken when another worker owns it now."""
        if not self._has_begun:
            with self._tx():
                self.begin()
        while not self.is_over:
            step, _ = self._next()
            try:
                if isinstance(step, RemoteStep):
                    self._remote(step, self._record)
                else:
                    self._here(step, self._record)
            except NOT_THE_STEPS_FAULT:
                raise
            except Exception as error:
                self._give_up(step, records.describe(error, step, self.run))

    # -- one step ---------------------------------------------------------------------------------------------

    def _here(self, step: Step, record: records.Record) -> None:
        """A step that this worker does itself."""
        work, place = self._work(record.step_key), self._place(step)
        reach(f"{place}.before")
        result: Result = {}
        if self.run.direction == "undo":
            step.revert(work, self.run.variables.get(step.name, {}))
        else:
            try:
                result = step.execute(work) or {}
            except NotYet as wait:
                with self._tx():
                    self._park(wait.cause, wait.detail, wait.seconds)
                return
        reach(f"{place}.effect")
        following = straight_on.go_on(self.alias, self.run, self.flow, record, result)
        if following is not None:
            self._opened = following
        elif straight_on.end(self.alias, self.run, self.flow, record, result):
            self.is_over = True
        else:
            with self._tx():
                self._succeed(step, result)
                self._proceed()
        reach(f"{place}.after")

    def _give_up(self, step: Step, error: dict[str, Any]) -> None:
        """The step has raised: most often the run turns back. What this turn knows may have been undone with it."""
        is_known, run = not self._must_reread, self.run
        undone = straight_on.turn_back(self.alias, run, self.flow, self._record, error) if is_known else None
        if undone is None:
            with self._tx():
                self._fail(step, error)
                self._proceed()
        else:
            self._opened = undone

    def _remote(self, step: RemoteStep, record: records.Record) -> None:
        """A step that a host does: send, park, and take the answer once it is there."""
        place = self._place(step)
        if record.state == StepState.RUNNING:
            reach(f"{place}.before")
            self._dispatch(step, record)
            reach(f"{place}.sent")
            return
        with self._tx():
            self._take(step, checkpoints.RECORDS.get(connections[self.alias], record.pk))
        reach(f"{place}.after")

    def _take_at_once(self, step: RemoteStep) -> None:
        """Take the answer in the transaction that brought it."""
        record, place = self._record, self._place(step)
        try:
            with self._row.savepoint():  # the answer itself stays
                self._take(step, record)
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self._opened, record.state, self.is_over = record, StepState.WAITING, False
            self._fail(step, records.describe(error, step, self.run))
            self._proceed()
        transaction.on_commit(partial(reach, f"{place}.after"), using=self.alias)

    def _take(self, step: RemoteStep, record: records.Record) -> None:
        """Go on with what the host answered; inside a fenced transaction."""
        reach(f"{self._place(step)}.answered")
        if record.answer is None:
            self._wait_longer(step, record)
        elif record.answer["ok"]:
            self._succeed(step, record.answer["result"])
        else:
            self._fail(step, {**record.answer["error"], "step": step.name, "attempt": self.run.attempt})
        self._proceed()

    def _dispatch(self, step: RemoteStep, record: records.Record) -> None:
        work = self._work(record.step_key)
        command = step.revert_command(work) if self.run.direction == "undo" else step.command(work)
        is_owed = command is not None and self._may_be_owed() and is_silent(self.alias, command.host)
        with self._tx():
            if command is None:
                self._succeed(step, {}, state=StepState.SKIPPED)
                self._proceed()
                return
            outbox.send_command(self.alias, command, run_uuid=self.run.uuid, is_owed=is_owed)
            waiting = {"state": StepState.WAITING, "host": command.host, "fencing_token": work.token}
            checkpoints.RECORDS.update(connections[self.alias], record.pk, **waiting)
            if is_owed:
                self._owe(step, command.host)
                self._proceed()
            else:
                self._park(WaitCause.HOST, command.host, settings.NOVELLA_HOST_DOWN_SECONDS)

    def _wait_longer(self, step: RemoteStep, record: records.Record) -> None:
        """Woken without an answer: a host that is at it gets more time; one that is silent, or hangs, has failed."""
        sent = OutboxMessage.objects.using(self.alias).filter(step_key=record.step_key)
        is_gone = is_silent(self.alias, record.host)
        why = f"Host {record.host} is silent." if is_gone else quiet_hosts.complaint(self.alias, self.run, record.pk)
        if not why:
            self._park(WaitCause.HOST, record.host, settings.NOVELLA_HOST_DOWN_SECONDS)
        elif self._may_be_owed() and (is_gone or self.run.direction == "undo"):  # who hangs may still have it all
            sent.update(is_owed=True)
            self._owe(step, record.host)
        elif (known := step.on_silence(self._work(record.step_key))) is not None:
            sent.delete()
            self._succeed(step, known)
        else:
            sent.delete()
            self._fail(step, records.describe(HostSilent(why), step, self.run))

    def _owe(self, step: Step, host: str) -> None:
        """Go on without the host; it is told until it answers, and refuses what it is told too late."""
        leases.outrank(self.alias, self.run)
        self._succeed(step, {"is_owed_by": host})

    def _may_be_owed(self) -> bool:
        """What only tidies up need not wait for a dead host: it will be told when it comes back."""
        return self.run.direction == "undo" or self.flow.is_forward_only

    # -- what follows; all of it inside a fenced transaction --------------------------------------------------

    def _begin(self) -> None:
        if not self.run.flow_version:
            self._save(
                flow_version=self.flow.version, plan=self.flow.plan(has_secrets=bool(self.run.secrets)), started_at=NOW
            )
            records.tell(self.alias, self.run, "run.started")
            if self.run.is_cancel_requested and self.flow.is_forward_only:
                self._save(is_cancel_requested=False)  # asked before it was known that this is not to be stopped
                records.tell(self.alias, self.run, "run.cancel_refused")
        self._proceed()

    def _proceed(self) -> None:
        """Look where the run stands: turn back, end, do what is local at once, open what is not."""
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
            if not step.is_local or run.direction == "undo":
                self._open(step, index)
                return
            self._do_local(step, index)

    def _open(self, step: Step, index: int) -> None:
        """Open the step's record.

        Only the first step of a turn can have been begun by somebody before, unless an operator has it undone again.
        """
        is_new = self._opened is not None and not self.run.orders
        last = None if is_new else records.current(self.alias, self.run, index)
        self._opened = records.open_record(self.alias, self.run, step, index, last)
        if self._opened is not last and self.run.direction == "do":
            self._row.write()
            step.apply_start(self._work(self._opened.step_key))

    def _do_local(self, step: Step, index: int) -> None:
        self._open(step, index)
        try:
            with self._row.savepoint():  # what was done before it stays
                self._succeed(step, {})
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self._record.state = StepState.RUNNING
            self._fail(step, records.describe(error, step, self.run))

    def _succeed(self, step: Step, result: Result, *, state: str = StepState.DONE) -> None:
        _, index = self._next()
        work = self._work(self._record.step_key)
        self._row.write()
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
        records.close_record(self.alias, self.run, self._record, state, result=dict(result))

    def _fail(self, step: Step, error: dict[str, Any]) -> None:
        """Try again later, note what cannot be undone, or turn back; `_proceed` goes on from there."""
        _, index = self._next()
        record = self._record
        is_undo = self.run.direction == "undo"
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
        return records.current(self.alias, run, run.position)

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
        token = self.run.fencing_token
        return Work(alias=self.alias, run=self.run, context=self._context, step_key=step_key, token=token)

    @property
    def _record(self) -> records.Record:
        assert self._opened is not None, "every step is opened by the transaction before it"
        return self._opened

    @contextmanager
    def _tx(self) -> Iterator[None]:
        """A fenced transaction on the journal, with the run as it is now: a cancel may have come meanwhile."""
        with write_tx(self.alias):
            self._work("").guard()
            if self._must_reread:  # the transaction before this one was rolled back
                self._row.reread()
                self._opened = None
                self._open(*self._next())
            self._must_reread = True
            yield
            self._row.write()
        self._must_reread = False
