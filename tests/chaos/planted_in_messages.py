"""Planted bugs between runs and hosts: locks, commands and answers, and the host's own journal."""

from __future__ import annotations

from typing import Any

from conductor.compute.host_journal import HostJournal
from conductor.compute.manager import ComputeManager
from conductor.core.states import RunState
from conductor.journal import locks, statements
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import DestroyInstance
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.steps import moves
from tests.chaos.planting import bug, replaced

# -- locks


@bug
def locks_are_kept() -> None:
    """A run that ends frees nothing."""
    replaced(outbox, "close_run", lambda _: lambda alias, run: None)


@bug
def locks_end_with_the_turn() -> None:
    """A run that waits for a host releases its locks."""

    def make(park: Any) -> Any:
        def letting_go(self: Transitions, *arguments: Any) -> None:
            park(self, *arguments)
            ResourceLock.objects.using(self.alias).filter(run=self.run).delete()

        return letting_go

    replaced(Transitions, "_suspend", make)


@bug
def waiters_sleep_on() -> None:
    """A waiter is not woken when its lock is free."""

    def make(free: Any) -> Any:
        def drop_all(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
            run.locks.using(alias).all().delete()
            run.lock_waits.using(alias).all().delete()
            return []

        return drop_all

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
    """A failed lock acquisition counts as success, because the lock's row exists."""
    replaced(locks, "_grant", lambda grant: lambda alias, run, names: grant(alias, run, names) or True)
    replaced(statements, "is_any_held", lambda _: lambda connection, names: False)


@bug
def waiters_are_woken_without_their_locks() -> None:
    """The next waiter is notified, but does not get the lock."""

    def make(take: Any) -> Any:
        def after_the_first(connection: Any, wanted: Any) -> Any:
            is_waiter = bool(wanted) and statements.queued_for(connection, wanted[0][1])
            return [name for name, _ in wanted] if is_waiter else take(connection, wanted)

        return after_the_first

    replaced(statements, "take_locks", make)


@bug
def locks_end_before_the_undo() -> None:
    """A run that fails releases its locks before its compensation."""

    def make(turn_back: Any) -> Any:
        def letting_go(self: Transitions, error: dict[str, Any]) -> None:
            turn_back(self, error)
            outbox.close_run(self.alias, self.run)

        return letting_go

    replaced(Transitions, "compensate", make)
    replaced(Transitions, "_fails_by_rows", lambda _: lambda self, step: False)


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
    """A run that waits for a host has no deadline."""

    def make(park: Any) -> Any:
        def without_end(self: Transitions, cause: Any, detail: str, seconds: float) -> None:
            park(self, cause, detail, outbox.NEVER_SECONDS)

        return without_end

    replaced(Transitions, "_suspend", make)


@bug
def answers_leave_their_command() -> None:
    """An answered command is sent again and again."""

    replaced(statements, "drop_command", lambda _: lambda connection, step_key: None)


@bug
def what_fails_is_deferred_no_longer() -> None:
    """An unresponsive host gets a deferred command only once, and fails at it."""
    replaced(outbox, "redeliver", lambda _: lambda alias, step_key, error: None)


@bug
def deferred_commands_meet() -> None:
    """All deferred commands of an unresponsive host are sent at once, and the last to arrive makes the others stale."""
    replaced(statements, "has_deferred", lambda _: lambda connection, host, instance_uuid: False)
    replaced(outbox, "_held_back", lambda _: lambda alias, messages: set())


@bug
def what_waits_behind_a_deferred_command_is_forgotten() -> None:
    """The order is kept, and nothing follows."""

    def make(held_back: Any) -> Any:
        def behind_any(alias: str, messages: Any) -> set[int]:
            return {message.pk for message in messages if message.times_sent == 1 and message.is_deferred}

        return behind_any

    replaced(outbox, "_held_back", make)
    replaced(outbox, "_send_next", lambda _: lambda alias, host, instance_uuid: None)


@bug
def a_cancelled_move_counts_as_clean() -> None:
    """Uncompensated effects of a move are forgotten with its instance."""
    replaced(moves, "ended_as", lambda _: lambda run, status: status)


# -- the host


@bug
def host_obeys_old_tokens() -> None:
    """A host obeys any command, from any sender."""
    replaced(HostJournal, "_highest", lambda _: lambda self, instance_uuid: -1)


@bug
def host_forgets_its_answers() -> None:
    """A repeated command is done again."""
    replaced(HostJournal, "finish", lambda _: lambda self, step_key, answer: self.abandon(step_key))


@bug
def host_answers_first() -> None:
    """A host reports success, and then does the work."""

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
