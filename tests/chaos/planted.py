"""Bugs to plant into the product, one at a time: a campaign that does not find them proves nothing.

Each is one that engines of this kind have had. Planting lasts until the process ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.db import connections

from conductor.compute.host_journal import HostJournal
from conductor.compute.manager import ComputeManager
from conductor.core.states import StepState
from conductor.journal import checkpoints, locks, passages
from conductor.journal.models import ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import DestroyInstance
from conductor.transactions import database_now
from conductor.workflows import leases, records, recovery, straight_on, turn
from conductor.workflows.flow import RemoteStep, Step, Work
from conductor.workflows.turn import Turn

Bug = Callable[[], None]
PLANTED: dict[str, Bug] = {}


def bug(plant: Bug) -> Bug:
    PLANTED[plant.__name__] = plant
    return plant


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


# -- fences and leases


@bug
def no_fence_in_the_journal() -> None:
    """A zombie's transaction on the journal is not refused."""
    _replace(Work, "guard", lambda _: lambda self: None)
    _forget_token_of_passages()


@bug
def no_fence_on_the_usual_way_on() -> None:
    """The statement that goes from one step to the next forgets the token."""
    _forget_token_of_passages()


def _forget_token_of_passages() -> None:
    for name in ("ON", "BACK"):
        way = getattr(passages, name)
        setattr(passages, name, replace(way, move=way.move.replace(" AND fencing_token = %s", " AND %s > 0")))


@bug
def no_fence_abroad() -> None:
    """A zombie may write to another database."""
    _replace(Work, "_guard_abroad", lambda _: lambda self, alias: None)


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

    _replace(leases, "take", make)


@bug
def claim_ignores_the_lease() -> None:
    """Whoever is rung for a run takes it, though its owner lives."""
    for name in ("_IS_DUE", "_GRANT"):
        _replace(checkpoints, name, lambda text: text.replace("(owner IS NULL OR lease_expires_at < {now})", "1 = 1"))
    _replace(Work, "guard", lambda _: lambda self: None)


@bug
def sweep_misses_the_dead() -> None:
    """Runs whose owner died are never rung for again."""

    def sweep(alias: str, *, grace_seconds: float) -> int:
        outbox.resend_due(alias)
        due = WorkflowRun.objects.using(alias).live().filter(owner__isnull=True, wake_at__lte=database_now())
        for queue, run_uuid in due.values_list("queue", "uuid"):
            recovery.broker.ring(queue, {"alias": alias, "run_uuid": str(run_uuid)})
        return 0

    _replace(recovery, "sweep", lambda _: sweep)


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

    _replace(Turn, "_here", lambda _: here)


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
                connection.savepoint_ids.clear()
                turn.reach("between effect and record")
            succeed(self, step, result, state=state)

        return apart

    _replace(Turn, "_succeed", make)


@bug
def undo_leaves_out_the_failed_step() -> None:
    """What a failed step did before it failed is not taken back."""

    def make(turn_back: Any) -> Any:
        def shorter(self: Turn, error: dict[str, Any]) -> None:
            turn_back(self, error)
            self._save(position=max(self.run.position - 1, 0))

        return shorter

    _replace(Turn, "_turn_back", make)
    _replace(straight_on, "turn_back", lambda _: lambda *_: None)  # the long way, each time


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

    _replace(Turn, "_turn_back", make)


@bug
def leftovers_are_not_told() -> None:
    """An undo that failed for good counts as done."""

    def make(end: Any) -> Any:
        def clean(self: Turn) -> None:
            self.run.leftovers = []
            end(self)

        return clean

    _replace(Turn, "_end", make)


@bug
def retry_counts_from_one() -> None:
    """A second attempt has the keys of the first, and gets its answers."""
    known_by = lambda run, index, try_number, direction="": f"{run.uuid}:{direction or run.direction}:{index}"  # noqa: E731
    _replace(records, "key_of", lambda _: known_by)


# -- locks


@bug
def locks_are_kept() -> None:
    """A run that ends frees nothing."""
    _replace(outbox, "close_run", lambda _: lambda alias, run: None)


@bug
def locks_end_with_the_turn() -> None:
    """A run that parks lets go of its locks."""

    def make(park: Any) -> Any:
        def letting_go(self: Turn, *arguments: Any) -> None:
            park(self, *arguments)
            ResourceLock.objects.using(self.alias).filter(run=self.run).delete()

        return letting_go

    _replace(Turn, "_park", make)


@bug
def waiters_sleep_on() -> None:
    """Who waits for a lock is not woken when it is free."""

    def make(free: Any) -> Any:
        def silent(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
            run.locks.using(alias).all().delete()
            run.lock_waits.using(alias).all().delete()
            return []

        return silent

    _replace(locks, "free", make)
    _replace(locks, "hand_over", lambda _: lambda alias, run_ids: [])  # the net under it has the same hole


@bug
def only_the_first_lock_is_asked() -> None:
    """Locks are granted when the first of them is free."""

    def make(take: Any) -> Any:
        def first_only(alias: str, run: WorkflowRun, resources: Any, *, may_wait: bool = False) -> bool:
            names = sorted(set(resources))
            return bool(take(alias, run, names[-1:] if names[-1].startswith("port:") else names, may_wait=may_wait))

        return first_only

    _replace(locks, "take", make)


# -- messages


@bug
def nothing_is_sent_again() -> None:
    """A command that was lost stays lost."""
    _replace(outbox, "resend_due", lambda _: lambda alias, limit=200: 0)


@bug
def parked_for_ever() -> None:
    """Who waits for a host has no deadline."""

    def make(park: Any) -> Any:
        def without_end(self: Turn, cause: Any, detail: str, seconds: float) -> None:
            park(self, cause, detail, outbox.NEVER_SECONDS)

        return without_end

    _replace(Turn, "_park", make)


# -- the host


@bug
def host_obeys_old_tokens() -> None:
    """A host does whatever it is told, by whomever."""
    _replace(HostJournal, "_highest", lambda _: lambda self, instance_uuid: -1)


@bug
def host_forgets_its_answers() -> None:
    """A repeated command is done again."""
    _replace(HostJournal, "finish", lambda _: lambda self, step_key, answer: self.abandon(step_key))


@bug
def host_answers_first() -> None:
    """A host says that it is done, and then does it."""

    def make(carry_out: Any) -> Any:
        def early(self: ComputeManager, command: Any) -> None:
            if isinstance(command, DestroyInstance):
                answer = {"ok": True, "result": {}, "error": None}
                self._journal.finish(command.step_key, answer)
                self._answer(command, answer)
                self._try(command)
            else:
                carry_out(self, command)

        return early

    _replace(ComputeManager, "_carry_out", make)


# -- the history


@bug
def the_end_is_not_told() -> None:
    """No event tells that a run has ended."""

    def make(tell: Any) -> Any:
        def discreet(alias: str, run: WorkflowRun, kind: str, record: Any = None, **data: Any) -> None:
            if kind != "run.ended":
                tell(alias, run, kind, record, **data)

        return discreet

    _replace(records, "tell", make)
