"""Locks over many resources: taken all or none, in sorted order, held by runs, handed on to the oldest waiter."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connections

from conductor.core.errors import ConcurrentUpdate, ResourceLocked
from conductor.journal import checkpoints
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun
from conductor.transactions import one_at_a_time

ROUNDS = 10  # looking and taking again, when somebody took or freed in between

# All of these run inside the caller's write transaction on `alias`.


def take(alias: str, run: WorkflowRun, resources: Iterable[str], *, may_wait: bool = False) -> bool:
    """Give `run` all of `resources`; True when it got them.

    When one is held, or somebody waits for one (who came first goes first): with `may_wait` the run is queued for all
    of them and False is returned, else ResourceLocked names the holder.
    """
    wanted = sorted(set(resources))
    for _ in range(ROUNDS):
        is_held = checkpoints.is_any_held(connections[alias], wanted)
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


def free(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
    """Take all locks and waits from `run`; returns the waiting runs that hold theirs now."""
    connection = connections[alias]
    return hand_over(alias, checkpoints.waiting_for(connection, checkpoints.drop_locks(connection, run.pk)))


def hand_over(alias: str, waiting: list[int]) -> list[WorkflowRun]:
    """Give these runs what they wait for, where nobody holds any of it; those who hold it now."""
    if waiting:
        # Of two runs that end together each may see the other's lock still there, and neither would wake the waiter.
        one_at_a_time(alias, "locks: hand over")
    return [waiter for run_id in waiting if (waiter := _hand_over(alias, run_id))]


def _hand_over(alias: str, run_id: int) -> WorkflowRun | None:
    """The waiting run, when nothing that it wants is held or was asked for earlier; it holds all of it then."""
    connection = connections[alias]
    wanted = checkpoints.queued_for(connection, run_id)
    if not wanted or checkpoints.is_taken_for(connection, run_id, wanted):
        return None
    waiter = checkpoints.RUNS.get(connection, run_id)
    if not _grant(alias, waiter, wanted):
        return None
    checkpoints.leave_queues(connection, run_id)
    return waiter


def refusal(held: Iterable[ResourceLock]) -> ResourceLocked:
    """The error that names the holder of the first of these locks."""
    lock = min(held, key=lambda lock: lock.resource)
    uuid = lock.run.uuid if lock.run else lock.holder_uuid
    return ResourceLocked(f"{lock.resource} is locked by {lock.holder}.", resource=lock.resource, holder=str(uuid))


def _holders(alias: str, resources: list[str], *, are_held_too: bool = False) -> list[ResourceLock]:
    """The locks on `resources`. Held too: none of them goes before this transaction has ended."""
    locks = ResourceLock.objects.using(alias).filter(resource__in=resources).select_related("run")
    return list(locks.order_by("resource").select_for_update(of=("self",)) if are_held_too else locks)


def _waiters(alias: str, resources: list[str]) -> list[ResourceLock]:
    """The locks that waiting runs will have."""
    waits = LockWait.objects.using(alias).filter(resource__in=resources).select_related("run").order_by("run_id")
    return [ResourceLock(resource=wait.resource, run=wait.run) for wait in waits]


def _grant(alias: str, run: WorkflowRun, resources: list[str]) -> bool:
    """False when somebody was quicker: the key decides, whoever looked first."""
    taken = checkpoints.take_locks(connections[alias], run.pk, resources)
    if len(taken) < len(resources):
        ResourceLock.objects.using(alias).filter(resource__in=taken).delete()
    return len(taken) == len(resources)
