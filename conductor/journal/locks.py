"""Locks over many resources: taken all or none, in sorted order, held by runs, handed on to the oldest waiter."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.core.errors import ResourceLocked
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun
from conductor.transactions import database_now

# All of these run inside the caller's write transaction on `alias`.


def take(alias: str, run: WorkflowRun, resources: Iterable[str], *, may_wait: bool = False) -> bool:
    """Give `run` all of `resources`; True when it got them.

    When one is held: with `may_wait` the run is queued for all of them and False is returned, else
    ResourceLocked names the holder.
    """
    wanted = sorted(set(resources))
    held = _holders(alias, wanted)
    if not held:
        _grant(alias, run, wanted)
        return True
    if may_wait:
        LockWait.objects.using(alias).bulk_create(LockWait(resource=resource, run=run) for resource in wanted)
        return False
    raise refusal(held)


def free(alias: str, run: WorkflowRun) -> list[WorkflowRun]:
    """Take all locks and waits from `run`; returns the waiting runs that hold theirs now."""
    freed = sorted(run.locks.using(alias).values_list("resource", flat=True))
    run.locks.using(alias).all().delete()
    run.lock_waits.using(alias).all().delete()
    waiting = (
        LockWait.objects.using(alias).filter(resource__in=freed).order_by("run_id").values_list("run_id", flat=True)
    )
    granted = []
    for run_id in dict.fromkeys(waiting):
        waiter = WorkflowRun.objects.using(alias).get(pk=run_id)
        wanted = sorted(waiter.lock_waits.using(alias).values_list("resource", flat=True))
        if not _holders(alias, wanted):
            waiter.lock_waits.using(alias).all().delete()
            _grant(alias, waiter, wanted)
            granted.append(waiter)
    return granted


def refusal(held: Iterable[ResourceLock]) -> ResourceLocked:
    """The error that names the holder of the first of these locks."""
    lock = min(held, key=lambda lock: lock.resource)
    uuid = lock.run.uuid if lock.run else lock.holder_uuid
    return ResourceLocked(f"{lock.resource} is locked by {lock.holder}.", resource=lock.resource, holder=str(uuid))


def _holders(alias: str, resources: list[str]) -> list[ResourceLock]:
    return list(ResourceLock.objects.using(alias).filter(resource__in=resources).select_related("run"))


def _grant(alias: str, run: WorkflowRun, resources: list[str]) -> None:
    ResourceLock.objects.using(alias).bulk_create(
        ResourceLock(resource=resource, run=run, granted_at=database_now()) for resource in resources
    )
