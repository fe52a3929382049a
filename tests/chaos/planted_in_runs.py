"""Planted bugs of runs: fences, leases, steps and their records, and the history."""

from __future__ import annotations

import re
from typing import Any

from django.db import connections

from conductor import events
from conductor.core.context import system_context
from conductor.core.states import StepState
from conductor.db.transactions import database_now
from conductor.journal import periodic_leases, statements
from conductor.journal.models import PeriodicLease, StepRecord, WorkflowRun
from conductor.journal.periodic_leases import HeldLease
from conductor.rpc import outbox
from conductor.services.operations.reconciliation import undos
from conductor.services.workflows import interventions
from conductor.workflows.engine import executor, leases, records, recovery
from conductor.workflows.engine.executor import RunExecutor
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.engine.unit_of_work import UnitOfWork
from conductor.workflows.flow import ONCE, Flow, RemoteStep, RetryPolicy, Step, StepContext
from tests.chaos.planting import bug, replaced

# -- fences and leases


@bug
def no_fence_in_the_journal() -> None:
    """A zombie's transaction on the journal is not refused."""
    replaced(StepContext, "guard", lambda _: lambda self: None)
    _forget_token_of_transitions()


@bug
def no_fence_on_the_default_transition() -> None:
    """The statement that goes from one step to the next forgets the token."""
    _forget_token_of_transitions()


def _forget_token_of_transitions() -> None:
    replaced(statements, "AS_KNOWN", lambda text: text.replace("fencing_token = %s", "%s > 0"))


@bug
def no_fence_cross_database() -> None:
    """A zombie may write to another database."""
    replaced(StepContext, "_guard_in_other_database", lambda _: lambda self, alias: None)


@bug
def token_not_raised() -> None:
    """A new owner works with the token of the one before."""

    def make(take: Any) -> Any:
        def same_token(alias: str, run_uuid: Any) -> WorkflowRun | None:
            before = WorkflowRun.objects.using(alias).filter(uuid=run_uuid).values_list("fencing_token", flat=True)
            token = before.first()
            run: WorkflowRun | None = take(alias, run_uuid)
            if run is not None and token:
                WorkflowRun.objects.using(alias).filter(pk=run.pk).update(fencing_token=token)
                run.fencing_token = token
            return run

        return same_token

    replaced(leases, "take", make)


@bug
def claim_ignores_the_lease() -> None:
    """A conductor claims a notified run although its owner is alive."""
    for name in ("_DUE_AT", "_GRANT"):
        replaced(statements, name, lambda text: text.replace("(owner IS NULL OR lease_expires_at < {now})", "1 = 1"))
    replaced(StepContext, "guard", lambda _: lambda self: None)


@bug
def sweep_misses_the_dead() -> None:
    """Runs whose owner died are never notified again."""

    def sweep(alias: str, *, grace_seconds: float) -> int:
        outbox.resend_due(alias)
        due = WorkflowRun.objects.using(alias).live().filter(owner__isnull=True, wake_at__lte=database_now())
        for queue, run_uuid in due.values_list("queue", "uuid"):
            recovery.broker.notify_conductor(queue, {"alias": alias, "run_uuid": str(run_uuid)})
        return 0

    replaced(recovery, "sweep", lambda _: sweep)


@bug
def ended_runs_are_taken_up() -> None:
    """A late notification restarts a run that has ended."""
    for name in ("_DUE_AT", "_GRANT"):
        replaced(statements, name, lambda text: re.sub(r"state IN \([^)]*\)", "1 = 1", text))


@bug
def a_lease_outlives_its_run() -> None:
    """The owner of a run remains its owner after the end."""

    def make(finish: Any) -> Any:
        def keeping(self: Transitions, state: str, error: Any) -> None:
            finish(self, state, error)
            self.unit.save(owner=leases.WORKER)

        return keeping

    replaced(Transitions, "complete", make)


@bug
def every_turn_begins_anew() -> None:
    """A conductor that claims a run starts it from the beginning."""

    def make(begin: Any) -> Any:
        def anew(self: Transitions) -> None:
            self.run.flow_version = 0
            begin(self)

        return anew

    replaced(Transitions, "resume", make)


@bug
def who_waits_for_a_lock_is_due() -> None:
    """A run in a queue for locks is taken up like any other."""

    def make(open_run: Any) -> Any:
        def due(alias: str, wanted: Any, *, may_wait: bool = False) -> WorkflowRun:
            run: WorkflowRun = open_run(alias, wanted, may_wait=may_wait)
            outbox.notify_after_commit(alias, run.uuid)
            WorkflowRun.objects.using(alias).filter(pk=run.pk).update(wake_at=database_now())
            return run

        return due

    replaced(outbox, "open_run", make)


# -- periodic work that one process does for all


@bug
def periodic_work_outlives_its_holder() -> None:
    """A lease is as long as the longest pass, and the death of its holder does not end it."""

    def make(take: Any) -> Any:
        def for_long(alias: str, name: str, *arguments: Any) -> bool:
            is_taken = bool(take(alias, name, *arguments))
            if is_taken:
                PeriodicLease.objects.using(alias).filter(name=name).update(lease_expires_at=database_now(600.0))
            return is_taken

        return for_long

    replaced(periodic_leases, "_take", make)


@bug
def a_death_watch_forgets_periodic_work() -> None:
    """The runs of a process that died go on at once, and its periodic work waits for the lease to run out."""
    replaced(periodic_leases, "end", lambda _: lambda alias, whose: 0)


@bug
def periodic_work_is_not_renewed() -> None:
    """A conductor loses its run if a step takes longer than the lease."""
    replaced(periodic_leases, "renew_all", lambda _: lambda: None)


@bug
def a_late_holder_goes_on_with_periodic_work() -> None:
    """A process that slept past its lease writes on."""
    replaced(HeldLease, "require", lambda _: lambda self: None)


# -- effects and records


@bug
def record_before_effect() -> None:
    """A step is recorded as done, and done afterwards."""

    def here(self: RunExecutor, step: Step, record: StepRecord) -> None:
        work = self.transitions.context_of(record.step_key)
        is_undo, result = self.run.direction == "undo", self.run.variables.get(step.name, {})
        with self.transitions.transaction():
            self.transitions.advance(step, {})
        executor.reach(f"{self.transitions.place_of(step)}.before")
        if is_undo:
            step.revert(work, result)
        else:
            step.execute(work)

    replaced(RunExecutor, "_here", lambda _: here)


@bug
def effect_in_a_transaction_of_its_own() -> None:
    """The effect of a local step is committed by itself, and its record later."""

    def make(close: Any) -> Any:
        def apart(self: Transitions, step: Step, result: Any, **options: Any) -> None:
            if self.run.direction == "do" and step.name == "Note":
                connection = connections[self.alias]
                step.commit(self.context_of(self.record.step_key), result)
                connection.connection.commit()
                connection.connection.execute("BEGIN IMMEDIATE")
                for name in connection.savepoint_ids:
                    connection.connection.execute(f'SAVEPOINT "{name}"')
                executor.reach("between effect and record")
            close(self, step, result, **options)

        return apart

    replaced(Transitions, "_close_step", make)


@bug
def undo_leaves_out_the_failed_step() -> None:
    """The effects of a failed step before its failure are not compensated."""

    def make(turn_back: Any) -> Any:
        def shorter(self: Transitions, error: dict[str, Any]) -> None:
            turn_back(self, error)
            self.unit.save(position=max(self.run.position - 1, 0))

        return shorter

    replaced(Transitions, "compensate", make)
    replaced(Transitions, "_fails_by_rows", lambda _: lambda self, step: False)


@bug
def undo_forgets_hosts() -> None:
    """Effects on hosts are not compensated."""
    RemoteStep.has_revert = property(lambda self: False)  # type: ignore[assignment, method-assign]


@bug
def cancel_undoes_nothing() -> None:
    """A cancelled run ends without compensation."""

    def make(turn_back: Any) -> Any:
        def at_once(self: Transitions, error: dict[str, Any]) -> None:
            turn_back(self, error)
            if error["class"] == "Cancelled":
                self.unit.save(position=0)

        return at_once

    replaced(Transitions, "compensate", make)


@bug
def uncompensated_is_not_recorded() -> None:
    """An undo that failed for good counts as done."""

    def make(end: Any) -> Any:
        def clean(self: Transitions) -> None:
            self.run.uncompensated = []
            end(self)

        return clean

    replaced(Transitions, "_end", make)


@bug
def retry_counts_from_one() -> None:
    """A second attempt has the keys of the first, and gets its answers."""
    known_by = lambda run, index, try_number, direction="": f"{run.uuid}:{direction or run.direction}:{index}"  # noqa: E731
    replaced(records, "key_of", lambda _: known_by)


@bug
def a_takeover_opens_the_step_again() -> None:
    """A takeover leaves the dead owner's open record, and opens another."""

    def make(open_record: Any) -> Any:
        def another(run: WorkflowRun, step: Step, index: int, last: Any) -> Any:
            if last is None or last.worker == leases.WORKER:
                return open_record(run, step, index, last)
            return records.new_record(run, step, index, last.try_number + 1)

        return another

    replaced(records, "open_record", make)


@bug
def undo_trusts_what_was_recorded() -> None:
    """A step without a result is taken for one that did nothing."""

    def make(here: Any) -> Any:
        def trusting(self: RunExecutor, step: Step, record: Any) -> None:
            if self.run.direction == "undo" and step.name not in self.run.variables:
                self.transitions.advance(step, {})
            else:
                here(self, step, record)

        return trusting

    replaced(RunExecutor, "_here", make)


@bug
def the_default_compensation_skips_one() -> None:
    """From one undo to the next in one commit: off by one."""

    def make(advances: Any) -> Any:
        def skipping(self: Transitions, step: Step) -> bool:
            is_by_rows = bool(advances(self, step))
            if is_by_rows and self.run.direction == "undo":
                self.run.position -= 1
            return is_by_rows

        return skipping

    replaced(Transitions, "_advances_by_rows", make)


@bug
def turning_back_leaves_the_record_open() -> None:
    """The record of a failed step stays open."""

    def make(close: Any) -> Any:
        def leaving(self: UnitOfWork, record: Any, state: str, **values: Any) -> None:
            close(self, record, state, **values)
            if self.is_alone and state == StepState.FAILED:
                self._alone.closed = (f"{record.step_key}?", state, values)  # type: ignore[union-attr]

        return leaving

    replaced(UnitOfWork, "close", make)


@bug
def an_undo_is_tried_once() -> None:
    """A compensation that fails once is given up."""
    Step.revert_retry = ONCE


@bug
def an_undo_that_waited_for_its_host_is_forgotten() -> None:
    """Only the host's answer continues the undo, although another run has the lock then."""
    replaced(undos, "go_on_all", lambda go_on: lambda alias, **which: go_on(alias, **which) if which else 0)


@bug
def a_later_run_ends_an_undo_that_waits() -> None:
    """A run that only waited for its host stays as it is when another run has changed the same thing since."""

    def refused(alias: str, run_uuid: Any, reason: str) -> None:
        request = interventions.InterventionRequest(reason=reason)
        interventions.intervene(system_context(), run_uuid, "undo", request)

    replaced(interventions, "finish_undo", lambda _: refused)


@bug
def until_done_gives_up() -> None:
    """No number of tries is taken for one."""
    replaced(RetryPolicy, "allows", lambda _: lambda self, try_number: try_number < (self.max_attempts or 1))


@bug
def cancel_knows_no_point_of_no_return() -> None:
    """A run past its point of no return is cancelled anyway."""
    Flow.is_forward_only = False  # type: ignore[assignment, method-assign]
    Flow.may_cancel_at = lambda self, position: True  # type: ignore[method-assign]


@bug
def a_cancelled_run_has_no_last_word() -> None:
    """The final step runs after failures only, and not after cancellations."""
    replaced(Transitions, "_final_step", lambda _: lambda self: None if self._is_cancelled() else self.flow.on_failure)


# -- the history


@bug
def a_run_ends_twice() -> None:
    """The cleanup of a run that has ended is another end."""
    replaced(events, "kind_of_end", lambda _: lambda run, state: "run.ended")


@bug
def the_end_is_not_emitted() -> None:
    """No event reports the end of a run."""

    def make(emit: Any) -> Any:
        def discreet(self: UnitOfWork, kind: str, record: Any = None, **data: Any) -> None:
            if kind != "run.ended":
                emit(self, kind, record, **data)

        return discreet

    replaced(UnitOfWork, "emit", make)


@bug
def the_default_transition_emits_no_start() -> None:
    """The transition from one step to the next in one commit emits no event for the step that begins."""

    def make(emit: Any) -> Any:
        def discreet(self: UnitOfWork, kind: str, record: Any = None, **data: Any) -> None:
            if not (self.is_alone and kind == "step.started"):
                emit(self, kind, record, **data)

        return discreet

    replaced(UnitOfWork, "emit", make)
