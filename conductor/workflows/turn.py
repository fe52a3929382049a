"""One worker's turn at a run: from the claim until it parks, ends or is fenced out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import connections

from conductor.cells.silence import is_silent
from conductor.core.errors import HostSilent
from conductor.core.states import StepState, WaitCause
from conductor.failpoints import reach
from conductor.journal import checkpoints
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.transactions import write_tx
from conductor.workflows import leases, quiet_hosts, records, straight_on
from conductor.workflows.course import NOT_THE_STEPS_FAULT, Course
from conductor.workflows.flow import Flow, NotYet, RemoteStep, Result, Step


class Turn(Course):
    """Takes a claimed run through its flow. Every transaction on the journal begins with the fence."""

    def __init__(self, alias: str, run: WorkflowRun, flow: Flow) -> None:
        super().__init__(alias, run, flow)
        self._has_begun = False
        self._must_reread = False

    def begin(self) -> None:
        """Open the step that the run stands at, and take its answer when it is there.

        Call it in the transaction that made this worker the owner: what holds there needs no fence.
        """
        self._has_begun = True
        self._begin()
        step = None if self.is_over else self._next()[0]
        if isinstance(step, RemoteStep) and self._record.state == StepState.WAITING:
            self._take_at_once(step)
        self._draft.write()
        self._is_fresh = False

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
        work, place = replace(self._work(record.step_key), changes=None), self._place(step)
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
            return
        with self._tx():
            self._take(step, checkpoints.RECORDS.get(connections[self.alias], record.pk))
        reach(f"{place}.after")

    def _take_at_once(self, step: RemoteStep) -> None:
        """Take the answer in the transaction that brought it."""
        record, place = self._record, self._place(step)
        try:
            with self._draft.savepoint():  # the answer itself stays
                self._take(step, record)
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self._opened, record.state, self.is_over = record, StepState.WAITING, False
            self._fail(step, records.describe(error, step, self.run))
            self._proceed()
        self._reach_after_commit(f"{place}.after")

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
            self._send(step, command, is_owed=is_owed)
            if is_owed:
                self._owe(step, command.host)
            self._proceed()

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

    @contextmanager
    def _tx(self) -> Iterator[None]:
        """A fenced transaction on the journal, with the run as it is now: a cancel may have come meanwhile."""
        with write_tx(self.alias):
            self._work("").guard()
            if self._must_reread:  # the transaction before this one was rolled back
                self._draft.reread()
                self._opened = None
                self._open(*self._next())
            self._must_reread = True
            yield
            self._draft.write()
        self._must_reread = False
