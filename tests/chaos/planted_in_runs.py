"""Bugs of who works on a run: fences, leases, steps and their records, and the history."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from django.db import connections

from conductor.core.states import StepState
from conductor.journal import checkpoints, passages, periodic_leases
from conductor.journal.models import Duty, StepRecord, WorkflowRun
from conductor.journal.periodic_leases import PeriodicLease
from conductor.rpc import outbox
from conductor.transactions import database_now
from conductor.workflows import leases, records, recovery, straight_on, turn
from conductor.workflows.flow import ONCE, Flow, RemoteStep, Retry, Step, Work
from conductor.workflows.turn import Turn
from tests.chaos.planting import bug, replaced

# -- fences and leases


@bug
def no_fence_in_the_journal() -> None:
    """A zombie's transaction on the journal is not refused."""
    replaced(Work, "guard", lambda _: lambda self: None)
    _forget_token_of_passages()


@bug
def no_fence_on_the_usual_way_on() -> None:
    """The statement that goes from one step to the next forgets the token."""
    _forget_token_of_passages()


def _forget_token_of_passages() -> None:
    for name in ("ON", "BACK", "END"):
        way = getattr(passages, name)
        setattr(passages, name, replace(way, move=way.move.replace(" AND fencing_token = %s", " AND %s > 0")))


@bug
def no_fence_abroad() -> None:
    """A zombie may write to another database."""
    replaced(Work, "_guard_abroad", lambda _: lambda self, alias: None)


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
    """Whoever is rung for a run takes it, though its owner lives."""
    for name in ("_IS_DUE", "_GRANT"):
        replaced(checkpoints, name, lambda text: text.replace("(owner IS NULL OR lease_expires_at < {now})", "1 = 1"))
    replaced(Work, "guard", lambda _: lambda self: None)


@bug
def sweep_misses_the_dead() -> None:
    """Runs whose owner died are never rung for again."""

    def sweep(alias: str, *, grace_seconds: float) -> int:
        outbox.resend_due(alias)
        due = WorkflowRun.objects.using(alias).live().filter(owner__isnull=True, wake_at__lte=database_now())
        for queue, run_uuid in due.values_list("queue", "uuid"):
            recovery.broker.ring(queue, {"alias": alias, "run_uuid": str(run_uuid)})
        return 0

    replaced(recovery, "sweep", lambda _: sweep)


@bug
def ended_runs_are_taken_up() -> None:
    """A doorbell that comes late begins a run again that has ended."""
    for name in ("_IS_DUE", "_GRANT"):
        replaced(checkpoints, name, lambda text: re.sub(r"state IN \([^)]*\)", "1 = 1", text))


@bug
def a_lease_outlives_its_run() -> None:
    """Who ends a run stays its owner."""

    def make(finish: Any) -> Any:
        def keeping(self: Turn, state: str, error: Any) -> None:
            finish(self, state, error)
            self._save(owner=leases.WORKER)

        return keeping

    replaced(Turn, "_finish", make)


@bug
def every_turn_begins_anew() -> None:
    """Who takes a run up takes it for one that nobody has begun."""

    def make(begin: Any) -> Any:
        def anew(self: Turn) -> None:
            self.run.flow_version = 0
            begin(self)

        return anew

    replaced(Turn, "_begin", make)


@bug
def who_waits_for_a_lock_is_due() -> None:
    """A run in a queue for locks is taken up like any other."""

    def make(open_run: Any) -> Any:
        def due(alias: str, wanted: Any, *, may_wait: bool = False) -> WorkflowRun:
            run: WorkflowRun = open_run(alias, wanted, may_wait=may_wait)
            outbox.ring_after_commit(alias, run.uuid)
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
                Duty.objects.using(alias).filter(name=name).update(lease_expires_at=database_now(600.0))
            return is_taken

        return for_long

    replaced(periodic_leases, "_take", make)


@bug
def a_death_watch_forgets_periodic_work() -> None:
    """The runs of a process that died go on at once, and its periodic work waits for the lease to run out."""
    replaced(periodic_leases, "end", lambda _: lambda alias, whose: 0)


@bug
def periodic_work_is_not_renewed() -> None:
    """Whoever takes longer than a lease loses the work while at it."""
    replaced(periodic_leases, "renew_all", lambda _: lambda: None)


@bug
def a_late_holder_goes_on_with_periodic_work() -> None:
    """A process that slept past its lease writes on."""
    replaced(PeriodicLease, "require", lambda _: lambda self: None)


# -- effects and records


@bug
def record_before_effect() -> None:
    """A step is recorded as done, and done afterwards."""

    def here(self: Turn, step: Step, record: StepRecord) -> None:
        work = self._work(record.step_key)
        is_undo, result = self.run.direction == "undo", self.run.variables.get(step.name, {})
        with self._tx():
            self._succeed(step, {})
            self._proceed()
        turn.reach(f"{self._place(step)}.before")
        if is_undo:
            step.revert(work, result)
        else:
            step.execute(work)

    replaced(Turn, "_here", lambda _: here)


@bug
def effect_in_a_transaction_of_its_own() -> None:
    """What a local step applies is committed by itself, and its record later."""

    def make(succeed: Any) -> Any:
        def apart(self: Turn, step: Step, result: Any, *, state: str = StepState.DONE) -> None:
            if self.run.direction == "do" and step.name == "Note":
                connection = connections[self.alias]
                step.apply(self._work(self._record.step_key), result)
                connection.connection.commit()
                connection.connection.execute("BEGIN IMMEDIATE")
                for _ in connection.savepoint_ids:
                    connection.connection.execute("SAVEPOINT step")
                turn.reach("between effect and record")
            succeed(self, step, result, state=state)

        return apart

    replaced(Turn, "_succeed", make)


@bug
def undo_leaves_out_the_failed_step() -> None:
    """What a failed step did before it failed is not taken back."""

    def make(turn_back: Any) -> Any:
        def shorter(self: Turn, error: dict[str, Any]) -> None:
            turn_back(self, error)
            self._save(position=max(self.run.position - 1, 0))

        return shorter

    replaced(Turn, "_turn_back", make)
    replaced(straight_on, "turn_back", lambda _: lambda *_: None)  # the long way, each time


@bug
def undo_forgets_hosts() -> None:
    """What hosts did is not undone."""
    RemoteStep.has_revert = property(lambda self: False)  # type: ignore[assignment, method-assign]


@bug
def cancel_undoes_nothing() -> None:
    """A cancelled run ends where it stands."""

    def make(turn_back: Any) -> Any:
        def at_once(self: Turn, error: dict[str, Any]) -> None:
            turn_back(self, error)
            if error["class"] == "Cancelled":
                self._save(position=0)

        return at_once

    replaced(Turn, "_turn_back", make)


@bug
def leftovers_are_not_told() -> None:
    """An undo that failed for good counts as done."""

    def make(end: Any) -> Any:
        def clean(self: Turn) -> None:
            self.run.leftovers = []
            end(self)

        return clean

    replaced(Turn, "_end", make)


@bug
def retry_counts_from_one() -> None:
    """A second attempt has the keys of the first, and gets its answers."""
    known_by = lambda run, index, try_number, direction="": f"{run.uuid}:{direction or run.direction}:{index}"  # noqa: E731
    replaced(records, "key_of", lambda _: known_by)


@bug
def a_takeover_opens_the_step_again() -> None:
    """Who takes over from a dead owner leaves the record that he had open, and opens another."""

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
        def trusting(self: Turn, step: Step, record: Any) -> None:
            if self.run.direction == "undo" and step.name not in self.run.variables:
                with self._tx():
                    self._succeed(step, {})
                    self._proceed()
            else:
                here(self, step, record)

        return trusting

    replaced(Turn, "_here", make)


@bug
def the_usual_way_back_skips_one() -> None:
    """From one undo to the next in one commit: off by one."""
    replaced(straight_on, "_undone", lambda undone: lambda flow, position: undone(flow, max(position - 1, 0)))


@bug
def turning_back_leaves_the_record_open() -> None:
    """The step that failed goes on, as far as its record knows."""
    back = passages.BACK
    passages.BACK = replace(back, close=f"{back.close} AND 1 = 0")


@bug
def an_undo_is_tried_once() -> None:
    """What could not be undone at once is given up."""
    Step.revert_retry = ONCE


@bug
def until_done_gives_up() -> None:
    """No number of tries is taken for one."""
    replaced(Retry, "allows", lambda _: lambda self, try_number: try_number < (self.tries or 1))


@bug
def cancel_knows_no_point_of_no_return() -> None:
    """What only goes forward is cancelled all the same."""
    Flow.is_forward_only = False  # type: ignore[assignment, method-assign]
    Flow.may_cancel_at = lambda self, position: True  # type: ignore[method-assign]


@bug
def a_cancelled_run_has_no_last_word() -> None:
    """Only failures are mourned."""
    replaced(Turn, "_final_step", lambda _: lambda self: None if self._is_cancelled() else self.flow.on_failure)


# -- the history


@bug
def the_end_is_not_told() -> None:
    """No event tells that a run has ended."""

    def make(tell: Any) -> Any:
        def discreet(alias: str, run: WorkflowRun, kind: str, record: Any = None, **data: Any) -> None:
            if kind != "run.ended":
                tell(alias, run, kind, record, **data)

        return discreet

    replaced(records, "tell", make)


@bug
def the_usual_way_tells_no_beginning() -> None:
    """From one step to the next in one commit: without a word of the one that begins."""

    def make(write: Any) -> Any:
        def discreet(alias: str, passage: Any) -> bool:
            passage.events = passage.events[:-1]
            return bool(write(alias, passage))

        return discreet

    replaced(passages, "write", make)
