"""Execution of a claimed run until it suspends, ends or is fenced."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

from conductor.cells import quarantine
from conductor.cells.hosts import is_unresponsive
from conductor.cells.targeting import target_cell
from conductor.core.errors import HostUnresponsive, StaleToken
from conductor.core.states import StepState, WaitCause
from conductor.db.transactions import is_serialization_failure, savepoint, write_tx
from conductor.failpoints import reach
from conductor.journal import statements
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import StepAnswered, StepProgressed
from conductor.workflows import catalog
from conductor.workflows.engine import interventions, leases, records, recovery
from conductor.workflows.engine.transitions import NOT_THE_STEPS_FAULT, Transitions
from conductor.workflows.flow import Flow, RemoteStep, Result, SetStep, Step, StepContext, Suspend

log = logging.getLogger(__name__)
SET_SIZE = 32  # maximum number of runs: one set is one transaction, and other writers wait for it


def run(alias: str, run_uuid: UUID | str) -> None:
    """Claim the run and execute it as far as possible. Do nothing when it is not due, or another process has it.

    Runs that are due at the same step are executed with it, where that step takes sets.
    """
    following = leases.next_step_if_due(alias, run_uuid)
    if following is None or (following.flow_version == 0 and quarantine.holds(alias)):
        return  # the sweep notifies again until the quarantine is lifted
    others = _others_at(alias, following, run_uuid)
    if others:
        _work_on_set(alias, [UUID(str(run_uuid)), *others])
    else:
        _work_on(alias, run_uuid)


def _others_at(alias: str, following: statements.NextStep, run_uuid: UUID | str) -> list[UUID]:
    if not following.is_ordinary or not catalog.takes_sets(*following[:3]):
        return []
    return statements.others_due_at(connections[alias], following, run_uuid, SET_SIZE - 1)


def answer(alias: str, message: StepAnswered) -> bool:
    """Record a host's answer and continue the run. A late, repeated or unknown answer changes nothing.

    Returns:
        Whether the answer completes a deferred command, for which no run waits any more.
    """
    done: list[bool] = []
    given = {"ok": message.ok, "result": dict(message.result), "error": message.error}

    def keep() -> bool:
        done.append(outbox.answered(alias, message.step_key, message.error))
        return statements.keep_answer(connections[alias], message.run_uuid, message.step_key, given)

    _work_on(alias, message.run_uuid, keep)
    return done[-1:] == [True]


def _work_on(alias: str, run_uuid: UUID | str, first: Callable[[], bool] = lambda: True) -> None:
    with leases.LeaseHeartbeat(alias, run_uuid), target_cell(alias), _failures_handled(alias, run_uuid):
        try:
            executor = _take_up(alias, run_uuid, first)
        except catalog.UnknownFlow as error:
            # Nothing is claimed. The answer is kept; the sweep notifies a conductor that has the flow.
            if catalog.is_news(run_uuid):
                log.warning("left to another release: run=%s %s", run_uuid, error)
            with write_tx(alias):
                first()
        else:
            if executor is not None:
                executor.drive()


def _work_on_set(alias: str, run_uuids: Sequence[UUID]) -> None:
    """Claim these runs, which are due at the same step, and execute them as far as possible."""
    with ExitStack() as stack:
        for run_uuid in run_uuids:
            stack.enter_context(leases.LeaseHeartbeat(alias, run_uuid))
        stack.enter_context(target_cell(alias))
        executors: list[RunExecutor] = []
        with _failures_handled(alias, *run_uuids):
            executors = _take_up_all(alias, run_uuids)
        RunSet(alias, executors).drive()


def _take_up_all(alias: str, run_uuids: Sequence[UUID]) -> list[RunExecutor]:
    """Claim the runs, and open their step, in one transaction. Runs that another worker claimed first are left out."""
    executors: list[RunExecutor] = []
    with write_tx(alias):
        for run_uuid in run_uuids:
            try:
                with savepoint(alias):
                    claimed = leases.take(alias, run_uuid)
                    if claimed is not None:
                        executor = RunExecutor(alias, claimed, catalog.flow_of(claimed))
                        executor.begin()
                        executors.append(executor)
            except (OperationalError, InterfaceError):
                raise
            except Exception:  # the run stays due, and is claimed alone
                log.exception("left out of a set: run=%s", run_uuid)
    return executors


@contextmanager
def _failures_handled(alias: str, *run_uuids: UUID | str) -> Iterator[None]:
    """Context in which this worker gives up these runs if it has lost them, or if the database failed."""
    try:
        yield
    except StaleToken as error:
        for run_uuid in run_uuids:
            log.warning("gave way: run=%s %s", run_uuid, error)
            _emit_refusal(alias, run_uuid, error)
    except (OperationalError, InterfaceError) as error:
        # The database is down. The state of the run is unknown, so nothing is decided. The lease ends when the database
        # is up again, or expires, and a conductor is notified.
        if is_serialization_failure(error):
            log.info("transaction crossed another: runs=%s", ", ".join(map(str, run_uuids)))
            for run_uuid in run_uuids:
                leases.give_back(alias, run_uuid)
        else:
            log.exception("database failed: runs=%s", ", ".join(map(str, run_uuids)))
            for run_uuid in run_uuids:
                leases.give_up(alias, run_uuid)


def _emit_refusal(alias: str, run_uuid: UUID | str, error: StaleToken) -> None:
    """Record in the run's history that a write of a former owner was refused."""
    refused: dict[str, Any] = {**error.details, "owner": leases.WORKER}
    with suppress(OperationalError, InterfaceError), write_tx(alias):
        found = WorkflowRun.objects.using(alias).filter(uuid=run_uuid).first()
        if found is not None:
            records.emit(alias, found, "run.write_refused", **refused, newest=found.fencing_token)


def _take_up(alias: str, run_uuid: UUID | str, first: Callable[[], bool]) -> RunExecutor | None:
    """Run `first`, claim the run, and do all that comes before the first external effect, in one transaction."""
    with write_tx(alias):
        claimed = leases.take(alias, run_uuid) if first() else None
        if claimed is None:
            return None
        executor = RunExecutor(alias, claimed, catalog.flow_of(claimed))
        if not claimed.orders:
            executor.begin()
            return executor
    return executor if interventions.carry_out(executor.transitions) else None


def progress(alias: str, message: StepProgressed) -> None:
    """Store a host's progress. Late progress is dropped."""
    connection = connections[alias]
    with write_tx(alias):
        record = statements.RECORDS_BY_KEY.find(connection, message.step_key)
        if record is None or record.state != StepState.WAITING:
            return
        record.run = statements.RUNS.get(connection, record.run_id)
        shown = {"message": message.message, "share": message.share}
        statements.RECORDS.update(connection, record.pk, progress=shown)
        figures = dict(message.figures or {})
        records.emit(alias, record.run, "step.progress", record, progress=shown, figures=figures)
        if message.figures and record.direction == "do" and catalog.is_known(record.run.flow, record.run.flow_version):
            step = catalog.flow_of(record.run).steps[record.index]
            if isinstance(step, RemoteStep):
                step.on_progress(alias, record.run, message.figures)


class RunExecutor:
    """Executes a claimed run through its flow. It changes the run only through its `Transitions`."""

    def __init__(self, alias: str, run: WorkflowRun, flow: Flow) -> None:
        self.alias = alias
        self.run = run
        self.flow = flow
        self.transitions = Transitions(alias, run, flow)
        self._has_begun = False

    def begin(self) -> None:
        """Open the run's current step, and process its answer if it has arrived.

        Call it in the transaction that made this worker the owner, which needs no fencing.
        """
        with self.transitions.inside():
            self._begin()

    def _begin(self) -> None:
        self._has_begun = True
        self.transitions.resume()
        step = None if self.transitions.is_over else self.transitions.next_step()[0]
        if isinstance(step, RemoteStep) and self.transitions.record.state == StepState.WAITING:
            self._take_at_once(step)

    def drive(self) -> None:
        """Continue until the run suspends or ends. Raises StaleToken when another worker owns it now."""
        if not self._has_begun:
            with self.transitions.transaction():
                self._begin()
        while not self.transitions.is_over:
            step, _ = self.transitions.next_step()
            try:
                if isinstance(step, RemoteStep):
                    self._remote(step, self.transitions.record)
                else:
                    self._here(step, self.transitions.record)
            except NOT_THE_STEPS_FAULT:
                raise
            except Exception as error:
                self.transitions.fail(step, records.describe(error, step, self.run))

    # -- one step ---------------------------------------------------------------------------------------------

    def _here(self, step: Step, record: records.Record) -> None:
        """Execute a local step in this worker."""
        place = self.transitions.place_of(step)
        reach(f"{place}.before")
        result: Result = {}
        if self.run.direction == "undo":
            step.revert(self.context_of_effect(), self.run.variables.get(step.name, {}))
        else:
            try:
                result = step.execute(self.context_of_effect()) or {}
            except Suspend as wait:
                self.transitions.suspend(wait.cause, wait.detail, wait.seconds, wait.call)
                return
        reach(f"{place}.effect")
        self.transitions.advance(step, result)
        reach(f"{place}.after")

    def context_of_effect(self) -> StepContext:
        """Return the context for the effect of the current step, outside of the journal's transactions."""
        return replace(self.transitions.context_of(self.transitions.record.step_key), changes=None)

    def step_of_set(self) -> SetStep | None:
        """Return the current step if it may be executed for a set of runs."""
        if self.transitions.is_over or self.run.direction != "do":
            return None
        step, _ = self.transitions.next_step()
        return step if isinstance(step, SetStep) else None

    def take_failure(self, step: Step, error: Exception) -> None:
        """Continue after a failed commit of the step. Raises StaleToken where another worker owns the run."""
        if isinstance(error, StaleToken):
            raise error
        self.transitions.fail(step, records.describe(error, step, self.run))

    def take_result(self, step: Step, result: Result | Exception) -> None:
        """Continue with a result that was computed for a set of runs. Called in a savepoint of the set's
        transaction.
        """
        if isinstance(result, StaleToken):
            raise result
        with self.transitions.transaction():
            if isinstance(result, Suspend):
                self.transitions.suspend(result.cause, result.detail, result.seconds, result.call)
            elif isinstance(result, Exception):
                self.transitions.fail(step, records.describe(result, step, self.run))
            else:
                self.transitions.advance(step, result)

    def _remote(self, step: RemoteStep, record: records.Record) -> None:
        """Execute a step on a host: send its command and suspend; process the answer once it has arrived."""
        place = self.transitions.place_of(step)
        if record.state == StepState.RUNNING:
            reach(f"{place}.before")
            self._dispatch(step, record)
            return
        with self.transitions.transaction():
            self._take(step, statements.RECORDS.get(connections[self.alias], record.pk))
        reach(f"{place}.after")

    def _take_at_once(self, step: RemoteStep) -> None:
        """Process the answer in the transaction that stored it."""
        record, place = self.transitions.record, self.transitions.place_of(step)
        try:
            with self.transitions.unit.savepoint():  # the answer itself stays
                self._take(step, record)
        except NOT_THE_STEPS_FAULT:
            raise
        except Exception as error:
            self.transitions.restore(record)
            self.transitions.fail(step, records.describe(error, step, self.run))
        self.transitions.reach_after_commit(f"{place}.after")

    def _take(self, step: RemoteStep, record: records.Record) -> None:
        """Continue with the host's answer; inside a fenced transaction."""
        reach(f"{self.transitions.place_of(step)}.answered")
        if record.answer is None:
            self._wait_longer(step, record)
        elif record.answer["ok"]:
            self.transitions.advance(step, record.answer["result"])
        else:
            self._take_error(step, record, record.answer["error"])

    def _take_error(self, step: RemoteStep, record: records.Record, error: dict[str, Any]) -> None:
        is_undo = self.run.direction == "undo"
        known = None if is_undo else step.on_error(self.transitions.context_of(record.step_key), error)
        if known is None:
            self.transitions.fail(step, {**error, "step": step.name, "attempt": self.run.attempt})
        else:
            self.transitions.advance(step, known)

    def _dispatch(self, step: RemoteStep, record: records.Record) -> None:
        context = self.transitions.context_of(record.step_key)
        command = step.revert_command(context) if self.run.direction == "undo" else step.command(context)
        may_wait = command is not None and self.transitions.may_be_deferred()
        is_deferred = may_wait and is_unresponsive(self.alias, command.host)
        with self.transitions.transaction():
            self.transitions.send(step, command, is_deferred=is_deferred)
            if is_deferred:
                self._defer(step, command.host)
            else:
                self.transitions.proceed()

    def _wait_longer(self, step: RemoteStep, record: records.Record) -> None:
        """Handle a wake-up without an answer.

        A host that is at work gets more time. The step has failed if the host is down, or has hung.
        """
        is_gone = is_unresponsive(self.alias, record.host)
        why = f"Host {record.host} is unresponsive." if is_gone else self._unresponsive(record)
        if not why:
            self.transitions.suspend(WaitCause.HOST, record.host, settings.NOVELLA_HOST_DOWN_SECONDS)
        elif self.transitions.may_be_deferred() and (is_gone or self.run.direction == "undo"):
            # A driver that hangs may still execute the whole command.
            OutboxMessage.objects.using(self.alias).filter(step_key=record.step_key).update(is_deferred=True)
            self._defer(step, record.host)
        else:
            self.transitions.forget_command(record)
            known = step.on_silence(self.transitions.context_of(record.step_key))
            if known is None:
                self.transitions.fail(step, records.describe(HostUnresponsive(why), step, self.run))
            else:
                self.transitions.advance(step, known)

    def _unresponsive(self, record: records.Record) -> str:
        return recovery.unresponsive_reason(self.alias, self.run, record.pk)

    def _defer(self, step: Step, host: str) -> None:
        """Continue without the host. Its command is sent again until it answers, and a late answer is refused by its
        token.
        """
        leases.renew_token(self.alias, self.run)
        self.transitions.advance(step, {"is_deferred_by": host})


class RunSet:
    """Claimed runs that are at the same step, and whose changes are committed together.

    A single run pays for a snapshot of the hosts, a turn to write and a commit at each step; the runs of a set share
    them. No run waits for others: a set is the runs that are due at the moment. It ends at a step that takes no sets. A
    run that fails or waits leaves its set, and continues by itself.
    """

    def __init__(self, alias: str, executors: Sequence[RunExecutor]) -> None:
        self.alias = alias
        self._executors = list(executors)

    def drive(self) -> None:
        """Continue until each run suspends or ends: together while they are at the same step, then each by itself."""
        together = self._executors
        alone: list[RunExecutor] = []
        while len(together) > 1 and (step := _common_step(together)) is not None:
            alone += [one for one in together if one.step_of_set() is not step]
            together = self._executed(step, [one for one in together if one.step_of_set() is step])
        for executor in (*alone, *together):
            self._alone(executor)

    def _alone(self, executor: RunExecutor) -> None:
        with _failures_handled(self.alias, executor.run.uuid):
            executor.drive()

    def _executed(self, step: SetStep, executors: Sequence[RunExecutor]) -> list[RunExecutor]:
        """Execute the step of these runs, and return those that this worker still owns."""
        for executor in executors:
            reach(f"{executor.transitions.place_of(step)}.before")
        try:
            results = step.execute_many([executor.context_of_effect() for executor in executors])
        except Exception as error:  # such as an error of a database that only some of them need
            log.warning("executed alone after an error of their set: step=%s error=%s", step.name, error)
            for executor in executors:
                self._alone(executor)
            return []
        left: list[RunExecutor] = []
        with _failures_handled(self.alias, *(executor.run.uuid for executor in executors)):
            for executor in executors:
                reach(f"{executor.transitions.place_of(step)}.effect")
            left = self._committed(step, executors, results)
            for executor in executors:
                reach(f"{executor.transitions.place_of(step)}.after")
        return left

    def _committed(
        self, step: SetStep, executors: Sequence[RunExecutor], results: Sequence[Result | Exception]
    ) -> list[RunExecutor]:
        """Commit all results at once; return the runs that this worker still owns."""
        failed: dict[RunExecutor, Exception] = {}
        with write_tx(self.alias):
            for executor, result in zip(executors, results, strict=True):
                try:
                    executor.take_result(step, result)
                except (OperationalError, InterfaceError):
                    raise  # it has undone the transaction
                except Exception as error:
                    failed[executor] = error
        left = [executor for executor in executors if executor not in failed]
        # it was undone to a savepoint, so its failure gets a transaction of its own
        for executor, cause in failed.items():
            with _failures_handled(self.alias, executor.run.uuid):
                executor.take_failure(step, cause)
                left.append(executor)
        return left


def _common_step(executors: Sequence[RunExecutor]) -> SetStep | None:
    """Return the step that most of these runs are at. None if it takes no sets."""
    steps = Counter(step for executor in executors if (step := executor.step_of_set()) is not None)
    return steps.most_common(1)[0][0] if steps else None
