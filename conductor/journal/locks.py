"""Locks on several resources: taken all or none, in sorted order, held by runs, handed over to the oldest waiter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import connections

from conductor.core.errors import ConcurrentUpdate, ResourceLocked
from conductor.db.transactions import one_at_a_time
from conductor.journal import statements
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun

ROUNDS = 10  # attempts, when another run took or freed a lock in between

# All functions run inside the caller's write transaction on `alias`.


def take(alias: str, run: WorkflowRun, resources: Iterable[str], *, may_wait: bool = False) -> bool:
    """Give `run` all of `resources`. True when it got them.

    When one of them is locked, or another run waits for it (first come, first served), the run is queued for all of
    them with `may_wait` and False is returned. Otherwise ResourceLocked names the holder.
    """
    wanted = sorted(set(resources))
    for _ in range(ROUNDS):
        is_held = statements.is_any_held(connections[alias], wanted)
        held = _holders(alias, wanted, are_held_too=may_wait) if is_held else []
        queued = _waiters(alias, wanted) if is_held and not held else []
        if (held or queued) and not may_wait:
            raise refusal(held or queued)
        if held or queued:
            LockWait.objects.using(alias).bulk_create(LockWait(resource=resource, run=run) for resource in wanted)
            return False
        if _grant(alias, run, wanted):
            return True
    raise ConcurrentUpdate(f"Others keep taking {', '.join(wanted)}; try again.")


def take_free(alias: str, runs: Sequence[WorkflowRun]) -> bool:
    """Give each new run all of its `resources`, if all of them are free. Otherwise False, and nothing is taken."""
    wanted = sorted((resource, run.pk) for run in runs for resource in run.resources or ())
    resources = [resource for resource, _ in wanted]
    if statements.is_any_held(connections[alias], resources):
        return False
    return _is_taken(alias, wanted)


def free(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
    """Free all locks and waits of `run`. Return the waiting runs that hold theirs now."""
    connection = connections[alias]
    return hand_over(alias, statements.waiting_for(connection, statements.drop_locks(connection, run.pk)))


def hand_over(alias: str, waiting: list[int]) -> list[WorkflowRun]:
    """Give these runs the locks that they wait for, where they are free. Return the runs that got theirs."""
    if waiting:
        # Of two runs that end together each may still see the other's lock, and neither would wake the waiter.
        one_at_a_time(alias, "locks: hand over")
    return [waiter for run_id in waiting if (waiter := _hand_over(alias, run_id))]


def _hand_over(alias: str, run_id: int) -> WorkflowRun | None:
    """Give the run its locks if none is held or was requested earlier, and return it. Otherwise None."""
    connection = connections[alias]
    wanted = statements.queued_for(connection, run_id)
    if not wanted or statements.is_taken_for(connection, run_id, wanted):
        return None
    waiter = statements.RUNS.get(connection, run_id)
    if not _grant(alias, waiter, wanted):
        return None
    statements.leave_queues(connection, run_id)
    return waiter


def refusal(held: Iterable[ResourceLock]) -> ResourceLocked:
    """Return the error that names the holder of the first of these locks."""
    lock = min(held, key=lambda lock: lock.resource)
    uuid = lock.run.uuid if lock.run else lock.holder_uuid
    return ResourceLocked(f"{lock.resource} is locked by {lock.holder}.", resource=lock.resource, holder=str(uuid))


def _holders(alias: str, resources: list[str], *, are_held_too: bool = False) -> list[ResourceLock]:
    """Return the locks on `resources`, locked, so that none of them is released before this transaction ends."""
    locks = ResourceLock.objects.using(alias).filter(resource__in=resources).select_related("run")
    return list(locks.order_by("resource").select_for_update(of=("self",)) if are_held_too else locks)


def _waiters(alias: str, resources: list[str]) -> list[ResourceLock]:
    """Return the locks that waiting runs will get."""
    waits = LockWait.objects.using(alias).filter(resource__in=resources).select_related("run").order_by("run_id")
    return [ResourceLock(resource=wait.resource, run=wait.run) for wait in waits]


def _grant(alias: str, run: WorkflowRun, resources: list[str]) -> bool:
    return _is_taken(alias, [(resource, run.pk) for resource in resources])


def _is_taken(alias: str, wanted: Sequence[tuple[str, int]]) -> bool:
    """Insert locks of resources for runs. False, and none is inserted, when another run was faster: the primary key
    decides.
    """
    taken = statements.take_locks(connections[alias], wanted)
    if len(taken) < len(wanted):
        ResourceLock.objects.using(alias).filter(resource__in=taken).delete()
    return len(taken) == len(wanted)
