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
    resource, holder = sorted(held.items())[0]
    raise ResourceLocked(
        f"{resource} is locked by workflow {holder.uuid} ({holder.action}).", resource=resource, holder=str(holder.uuid)
    )


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


def _holders(alias: str, resources: list[str]) -> dict[str, WorkflowRun]:
    locks = ResourceLock.objects.using(alias).filter(resource__in=resources).select_related("run")
    return {lock.resource: lock.run for lock in locks}


def _grant(alias: str, run: WorkflowRun, resources: list[str]) -> None:
    ResourceLock.objects.using(alias).bulk_create(
        ResourceLock(resource=resource, run=run, granted_at=database_now()) for resource in resources
    )
