"""Locks on several resources: taken all or none, in sorted order, held by runs, handed over to the oldest waiter.

A run of a cell also locks volumes, ports and images, which are in the API database. These cross-database locks are
taken before the run is opened and released after it has ended, each time by two transactions in two databases. A sweep
releases locks that a dead process left in between: those whose run was never opened, or has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, connections
from django.db.models import Max

from conductor.core.errors import ConcurrentUpdate, ResourceLocked
from conductor.core.states import FINAL_RUN_STATES
from conductor.db.transactions import database_now, one_at_a_time, savepoint, write_tx
from conductor.journal import statements
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun

ROUNDS = 10  # attempts, when another run took or freed a lock in between
API = "default"
KINDS = ("volume:", "port:", "image:")
# Minimum age of a lock without a run before the sweep frees it: far above the time between both transactions.
ARRIVAL_SECONDS = 60.0

# Locks of runs in their own database: these functions run inside the caller's write transaction on `alias`.


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


# Cross-database locks: each function has its own transactions on the API database, unless it says otherwise.


def cross_database(alias: str, resources: Iterable[str]) -> list[str]:
    """Return those of a run's resources that are in the API database while the run is in the cell `alias`."""
    return [] if alias == API else sorted({name for name in resources if name.startswith(KINDS)})


def take_cross_database(resources: Iterable[str], *, holder_uuid: UUID | str, holder_alias: str, action: str) -> None:
    """Give all of `resources` to a run that is about to be opened, or none. Raises ResourceLocked, naming the holder.

    The holder may be this very run, if another process is about to open it or has done so. So only the process that
    takes the locks may release them. Locks left by a process that died at the end of a run are released first.
    """
    wanted = sorted(set(resources))
    if not wanted:
        return
    try:
        _take_in_api(wanted, holder_uuid, holder_alias, action)
    except ResourceLocked:
        if not sweep(holder_alias):
            raise
        _take_in_api(wanted, holder_uuid, holder_alias, action)


def _take_in_api(wanted: list[str], holder_uuid: UUID | str, holder_alias: str, action: str) -> None:
    with write_tx(API):
        locks = ResourceLock.objects.using(API).select_related("run").filter(resource__in=wanted)
        held = list(locks)
        if held:
            raise refusal(held)
        try:
            with savepoint(API):
                ResourceLock.objects.using(API).bulk_create(
                    ResourceLock(
                        resource=resource,
                        holder_uuid=holder_uuid,
                        holder_alias=holder_alias,
                        holder_action=action,
                        granted_at=database_now(),
                    )
                    for resource in wanted
                )
        except IntegrityError:  # another run was faster, between the two statements
            raise refusal(locks.all()) from None


def pass_on(run: WorkflowRun, resources: Iterable[str], *, holder_uuid: UUID | str, holder_alias: str) -> None:
    """Transfer the locks of a run of the API database to a run of a cell; inside a write transaction. Repeatable."""
    ResourceLock.objects.using(API).filter(run=run, resource__in=sorted(set(resources))).update(
        run=None,
        holder_uuid=holder_uuid,
        holder_alias=holder_alias,
        holder_action=run.action,
        granted_at=database_now(),
    )


def free_cross_database(holder_uuid: UUID | str) -> None:
    """Free all locks just taken for a run of another database that was not opened."""
    free_cross_database_until(holder_uuid, granted_last(holder_uuid))


def granted_last(holder_uuid: UUID | str) -> datetime | None:
    """Return when a run of another database last got locks here. None without any. Read it before the run ends."""
    locks = ResourceLock.objects.using(API).filter(holder_uuid=holder_uuid)
    last: datetime | None = locks.aggregate(last=Max("granted_at"))["last"]
    return last


def free_cross_database_until(holder_uuid: UUID | str, granted_at: datetime | None) -> None:
    """Release the locks that a run got until then. Later ones, of a restarted run, stay. Idempotent."""
    if granted_at is not None:  # most runs hold no locks here, and need no write
        with write_tx(API):
            locks = ResourceLock.objects.using(API).filter(holder_uuid=holder_uuid)
            given = locks.select_for_update().values_list("resource", "granted_at")
            # Compared in Python: SQLite stores a whole second with a fraction by its own clock, and without one by
            # Python's.
            locks.filter(resource__in=[name for name, at in given if at <= granted_at]).delete()


def holder_of(resource: str) -> ResourceLock | None:
    """Return the lock on a volume, port or image."""
    return ResourceLock.objects.using(API).select_related("run").filter(resource=resource).first()


def require_free(resource: str) -> None:
    """Raise ResourceLocked, naming the holder, while a workflow holds a volume, port or image.

    Inside the write transaction that changes it: a workflow that begins later finds the change.
    """
    held = holder_of(resource)
    if held is not None:
        raise refusal([held])


def sweep(alias: str) -> int:
    """Free locks of runs of the cell `alias` that have ended or were never opened. Return how many."""
    if not statements.has_foreign_locks(connections[API], alias):
        return 0
    return _free_ended(alias) + _free_old(alias)


def _free_ended(alias: str) -> int:
    """Free locks granted before their run ended: a run that is restarted after its end takes new ones."""
    locks = ResourceLock.objects.using(API).filter(holder_alias=alias, holder_uuid__isnull=False)
    granted = {uuid: at for uuid, at in locks.values_list("holder_uuid", "granted_at") if uuid}
    if not granted:
        return 0
    runs = WorkflowRun.objects.using(alias).filter(uuid__in=list(granted), state__in=FINAL_RUN_STATES)
    ends = runs.values_list("uuid", "finished_at")
    over = [uuid for uuid, finished_at in ends if finished_at and granted[uuid] < finished_at]
    if not over:
        return 0
    with write_tx(API):
        count, _ = locks.filter(holder_uuid__in=over).delete()
    return count


def _free_old(alias: str) -> int:
    old = ResourceLock.objects.using(API).filter(holder_alias=alias, granted_at__lt=database_now(-ARRIVAL_SECONDS))
    holders = {uuid for uuid in old.values_list("holder_uuid", flat=True) if uuid}
    if not holders:
        return 0
    runs = WorkflowRun.objects.using(alias).filter(uuid__in=holders).exclude(state__in=FINAL_RUN_STATES)
    over = holders - set(runs.values_list("uuid", flat=True))
    if not over:
        return 0
    with write_tx(API):
        count, _ = old.filter(holder_uuid__in=over).delete()
    return count
