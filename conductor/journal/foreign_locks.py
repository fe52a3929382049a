"""Locks that a cell's run holds in the API database, on volumes and ports that live there.

They are taken before the run is opened and freed after it has ended: two transactions each time, in two databases.
What a dead process left between them is swept: a lock whose run never came, or is over, goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, connections, transaction
from django.db.models import Max

from conductor.core.errors import ResourceLocked
from conductor.core.states import FINAL_RUN_STATES
from conductor.journal import sweeps
from conductor.journal.locks import refusal
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.transactions import database_now, write_tx

API = "default"
KINDS = ("volume:", "port:", "image:")
# How long a lock may be there before its run: the time between the two transactions, and much more.
ARRIVAL_SECONDS = 60.0


def foreign(alias: str, resources: Iterable[str]) -> list[str]:
    """Those of a run's resources that live in the API database while the run lives in the cell `alias`."""
    return [] if alias == API else sorted({name for name in resources if name.startswith(KINDS)})


def take(resources: Iterable[str], *, holder_uuid: UUID | str, holder_alias: str, action: str) -> None:
    """Give all of `resources` to a run that is about to be opened, or none. Raises ResourceLocked, naming the holder.

    The holder may be that very run: then somebody else is about to open it, or has. So whoever takes is the only one
    who may free again. What a process left that died at the end of its work is freed first.
    """
    wanted = sorted(set(resources))
    if not wanted:
        return
    try:
        _take(wanted, holder_uuid, holder_alias, action)
    except ResourceLocked:
        if not sweep(holder_alias):
            raise
        _take(wanted, holder_uuid, holder_alias, action)


def _take(wanted: list[str], holder_uuid: UUID | str, holder_alias: str, action: str) -> None:
    with write_tx(API):
        locks = ResourceLock.objects.using(API).select_related("run").filter(resource__in=wanted)
        held = list(locks)
        if held:
            raise refusal(held)
        try:
            with transaction.atomic(using=API):
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
        except IntegrityError:  # somebody was quicker, between the two statements
            raise refusal(locks.all()) from None


def pass_on(run: WorkflowRun, resources: Iterable[str], *, holder_uuid: UUID | str, holder_alias: str) -> None:
    """Give what a run of the API database holds to a run of a cell; inside a write transaction. Repeatable."""
    ResourceLock.objects.using(API).filter(run=run, resource__in=sorted(set(resources))).update(
        run=None,
        holder_uuid=holder_uuid,
        holder_alias=holder_alias,
        holder_action=run.action,
        granted_at=database_now(),
    )


def free(holder_uuid: UUID | str) -> None:
    """Take back all that was just taken for a run of another database, which was not opened."""
    free_until(holder_uuid, granted_last(holder_uuid))


def granted_last(holder_uuid: UUID | str) -> datetime | None:
    """When a run of another database was given what it holds here, None for nothing; of one that ends, read before."""
    locks = ResourceLock.objects.using(API).filter(holder_uuid=holder_uuid)
    last: datetime | None = locks.aggregate(last=Max("granted_at"))["last"]
    return last


def free_until(holder_uuid: UUID | str, granted_at: datetime | None) -> None:
    """Free what a run was given until then: what it is given when it begins again is not freed by its end, however
    late that comes. Doing it again changes nothing.
    """
    if granted_at is not None:  # most runs hold nothing here, and need no write
        with write_tx(API):
            locks = ResourceLock.objects.using(API).filter(holder_uuid=holder_uuid)
            given = locks.select_for_update().values_list("resource", "granted_at")
            # Not by SQL: SQLite writes a whole second by its clock as text with a fraction, and Python without.
            locks.filter(resource__in=[name for name, at in given if at <= granted_at]).delete()


def holder_of(resource: str) -> ResourceLock | None:
    """Who holds a volume, port or image now."""
    return ResourceLock.objects.using(API).select_related("run").filter(resource=resource).first()


def require_free(resource: str) -> None:
    """Raises ResourceLocked, naming the holder, while a workflow is at work on a volume, port or image.

    In the write transaction that changes it: what begins later finds the change.
    """
    held = holder_of(resource)
    if held is not None:
        raise refusal([held])


def sweep(alias: str) -> int:
    """Free what runs of the cell `alias` left here that are over or never came; returns how many."""
    if not sweeps.has_foreign_locks(connections[API], alias):
        return 0
    return _free_ended(alias) + _free_old(alias)


def _free_ended(alias: str) -> int:
    """Locks that were granted before their run ended: one that begins again after its end takes them anew."""
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
