"""Bugs of what stands between runs and hosts: locks, commands and answers, and the host's own journal."""

from __future__ import annotations

from typing import Any

from conductor.compute.host_journal import HostJournal
from conductor.compute.manager import ComputeManager
from conductor.core.states import RunState
from conductor.journal import checkpoints, locks
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import DestroyInstance
from conductor.workflows import straight_on
from conductor.workflows.steps import mark_move_failed
from conductor.workflows.turn import Turn
from tests.chaos.planting import bug, replaced

# -- locks


@bug
def locks_are_kept() -> None:
    """A run that ends frees nothing."""
    replaced(outbox, "close_run", lambda _: lambda alias, run: None)


@bug
def locks_end_with_the_turn() -> None:
    """A run that parks lets go of its locks."""

    def make(park: Any) -> Any:
        def letting_go(self: Turn, *arguments: Any) -> None:
            park(self, *arguments)
            ResourceLock.objects.using(self.alias).filter(run=self.run).delete()

        return letting_go

    replaced(Turn, "_park", make)


@bug
def waiters_sleep_on() -> None:
    """Who waits for a lock is not woken when it is free."""

    def make(free: Any) -> Any:
        def silent(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
            run.locks.using(alias).all().delete()
            run.lock_waits.using(alias).all().delete()
            return []

        return silent

    replaced(locks, "free", make)
    replaced(locks, "hand_over", lambda _: lambda alias, run_ids: [])  # the net under it has the same hole


@bug
def only_the_first_lock_is_asked() -> None:
    """Locks are granted when the first of them is free."""

    def make(take: Any) -> Any:
        def first_only(alias: str, run: WorkflowRun, resources: Any, *, may_wait: bool = False) -> bool:
            names = sorted(set(resources))
            return bool(take(alias, run, names[-1:] if names[-1].startswith("port:") else names, may_wait=may_wait))

        return first_only

    replaced(locks, "take", make)


@bug
def a_lock_of_another_counts_as_ours() -> None:
    """Whoever could not take a lock has it, as it is there."""
    replaced(locks, "_grant", lambda grant: lambda alias, run, names: grant(alias, run, names) or True)
    replaced(checkpoints, "is_any_held", lambda _: lambda connection, names: False)


@bug
def waiters_are_woken_without_their_locks() -> None:
    """Who is next in a queue is rung for, and given nothing."""

    def make(take: Any) -> Any:
        def after_the_first(connection: Any, run_id: int, names: Any) -> Any:
            is_waiter = checkpoints.queued_for(connection, run_id)
            return list(names) if is_waiter else take(connection, run_id, names)

        return after_the_first

    replaced(checkpoints, "take_locks", make)


@bug
def locks_end_before_the_undo() -> None:
    """A run that fails lets go of its locks and then undoes what it did."""

    def make(turn_back: Any) -> Any:
        def letting_go(self: Turn, error: dict[str, Any]) -> None:
            turn_back(self, error)
            outbox.close_run(self.alias, self.run)

        return letting_go

    replaced(Turn, "_turn_back", make)
    replaced(straight_on, "turn_back", lambda _: lambda *_: None)


@bug
def only_who_is_done_frees_his_locks() -> None:
    """A run that failed keeps what it held."""

    def make(close: Any) -> Any:
        def if_done(alias: str, run: WorkflowRun) -> None:
            if run.state == RunState.DONE:
                close(alias, run)

        return if_done

    replaced(outbox, "close_run", make)


# -- messages


@bug
def nothing_is_sent_again() -> None:
    """A command that was lost stays lost."""
    replaced(outbox, "resend_due", lambda _: lambda alias, limit=200: 0)


@bug
def parked_for_ever() -> None:
    """Who waits for a host has no deadline."""

    def make(park: Any) -> Any:
        def without_end(self: Turn, cause: Any, detail: str, seconds: float) -> None:
            park(self, cause, detail, outbox.NEVER_SECONDS)

        return without_end

    replaced(Turn, "_park", make)


@bug
def answers_leave_their_command() -> None:
    """What was answered is sent again and again."""

    replaced(checkpoints, "drop_command", lambda _: lambda connection, step_key: None)


@bug
def what_fails_is_owed_no_longer() -> None:
    """A host that was silent is told once what nobody waits for, and fails at it."""
    replaced(outbox, "redeliver", lambda _: lambda alias, step_key, error: None)


@bug
def deferred_commands_meet() -> None:
    """All that a silent host is to do leaves at once, and whatever comes to it last makes the rest out of date."""
    replaced(checkpoints, "has_deferred", lambda _: lambda connection, host, instance_uuid: False)
    replaced(outbox, "_held_back", lambda _: lambda alias, messages: set())


@bug
def what_waits_behind_a_deferred_command_is_forgotten() -> None:
    """The order is kept, and nothing follows."""

    def make(held_back: Any) -> Any:
        def behind_any(alias: str, messages: Any) -> set[int]:
            return {message.pk for message in messages if message.times_sent == 1 and message.is_owed}

        return behind_any

    replaced(outbox, "_held_back", make)
    replaced(outbox, "_send_next", lambda _: lambda alias, host, instance_uuid: None)


@bug
def a_cancelled_move_counts_as_clean() -> None:
    """What a move could not take back is forgotten with its thing."""
    replaced(mark_move_failed, "ended_as", lambda _: lambda run, status: status)


# -- the host


@bug
def host_obeys_old_tokens() -> None:
    """A host does whatever it is told, by whomever."""
    replaced(HostJournal, "_highest", lambda _: lambda self, instance_uuid: -1)


@bug
def host_forgets_its_answers() -> None:
    """A repeated command is done again."""
    replaced(HostJournal, "finish", lambda _: lambda self, step_key, answer: self.abandon(step_key))


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

    replaced(ComputeManager, "_carry_out", make)


@bug
def host_refuses_the_token_that_it_knows() -> None:
    """A command that was interrupted is out of date when it comes again."""
    replaced(HostJournal, "_highest", lambda highest: lambda self, uuid: highest(self, uuid) + 1)
