"""Pruning rules: for each kind its database, its retention, and the rows that can be deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, Max, Min, OuterRef, Q, QuerySet
from django.db.models.lookups import GreaterThanOrEqual

from conductor.api_db.models import Finding, HostSnapshot, Notice, SchedulingDecision
from conductor.cell_db.models import ConsoleLog, GuestCount, Instance
from conductor.cells.lookup import API_ALIAS, CELL0, journal_aliases
from conductor.core.states import FINAL_RUN_STATES
from conductor.db.transactions import database_now
from conductor.journal.models import (
    AuditRecord,
    Event,
    ForeignFence,
    LockWait,
    NotificationDelivery,
    NotificationPlace,
    OutboxMessage,
    ResourceLock,
    WorkflowRun,
)
from conductor.services.audit import seals
from conductor.services.operations.pruning.needed import ReferencedRuns

Rows = QuerySet[Any]


@dataclass(frozen=True)
class PruningRule:
    """The pruning rule of one kind.

    Attributes:
        over: `over(alias, seconds, needed)` returns the rows older than `seconds` that are not needed.
        asks_all: Any database might need the rows, so all must respond.
        order: The order in which rows are deleted.
        remove: `remove(alias, rows)` deletes rows and returns how many.
    """

    name: str
    setting: str
    over: Callable[[str, float, ReferencedRuns], Rows]
    is_in: Callable[[str], bool] = lambda alias: True
    asks_all: bool = False
    order: str = "pk"
    remove: Callable[[str, Rows], int] = lambda alias, rows: rows.delete()[0]


def _is_api(alias: str) -> bool:
    return alias == API_ALIAS


def _is_cell(alias: str) -> bool:
    return alias not in (API_ALIAS, CELL0)


def _workflows(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return ended workflows, with their steps and leases.

    One that still holds or waits for a lock is left to the reconciler.
    """
    held = ResourceLock.objects.using(alias).filter(run=OuterRef("pk"))
    waits = LockWait.objects.using(alias).filter(run=OuterRef("pk"))
    rows = WorkflowRun.objects.using(alias).filter(
        ~Exists(held), ~Exists(waits), state__in=FINAL_RUN_STATES, finished_at__lt=database_now(-seconds)
    )
    return rows.exclude(uuid__in=needed.run_uuids)


def _remove_workflows(alias: str, rows: Rows) -> int:
    """Delete ended workflows, and once that is committed their fences, which no row here refers to.

    The rule of fences finds those that stay when another database fails meanwhile.
    """
    run_uuids = list(rows.values_list("uuid", flat=True))
    count: int = rows.delete()[0]
    transaction.on_commit(lambda: _remove_fences(alias, run_uuids), using=alias, robust=True)
    return count


def _remove_fences(home: str, run_uuids: Sequence[UUID]) -> None:
    for alias in journal_aliases():
        if alias != home:
            ForeignFence.objects.using(alias).filter(run_uuid__in=run_uuids).delete()


def _commands(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return commands of ended workflows, which no host must execute any more."""
    rows = OutboxMessage.objects.using(alias).filter(is_deferred=False, created_at__lt=database_now(-seconds))
    return rows.exclude(run_uuid__in=needed.run_uuids)


def _fences(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return fencing tokens of other databases' workflows that are deleted there.

    A fence outlives its workflow's row, so that a process that slept for the whole retention meets one of the two. Most
    are deleted right after their workflows.
    """
    return ForeignFence.objects.using(alias).filter(run_uuid__in=needed.gone(alias))


def _events(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return events that were sent to all sinks. The last one stays, as it marks the end of the log."""
    events = Event.objects.using(alias)
    newest = events.aggregate(newest=Max("pk"))["newest"] or 0
    lowest = NotificationPlace.objects.using(alias).aggregate(lowest=Min("reached"))["lowest"]
    if alias not in needed.young_events:
        needed.young_events[alias] = first_young(events, seconds)
    end = min(newest, needed.young_events[alias], newest if lowest is None else lowest + 1)
    return events.filter(created_at__lt=database_now(-seconds), pk__lt=end).exclude(run_uuid__in=needed.run_uuids)


def first_young(rows: Rows, seconds: float) -> int:
    """Return a number from which on no row is old. It is found by halving, as rows are numbered in the order of their
    times.

    This saves an index on times, into which each new row would be inserted, or reading all young rows. Some numbers of
    rows of the same moment may be in another order; these rows are found later.
    """
    bounds = rows.aggregate(oldest=Min("pk"), newest=Max("pk"))
    start, end = bounds["oldest"] or 0, (bounds["newest"] or 0) + 1
    is_young = GreaterThanOrEqual(F("created_at"), database_now(-seconds))
    while start < end:
        middle = (start + end) // 2
        found = rows.filter(pk__gte=middle).order_by("pk").values_list("pk", is_young).first()
        if found is None or found[1]:
            end = middle
        else:
            start = found[0] + 1
    return end


def _decisions(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    rows = SchedulingDecision.objects.using(alias).filter(created_at__lt=database_now(-seconds))
    return rows.exclude(run_uuid__in=needed.run_uuids)


def _snapshots(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return expired host snapshots. Decisions stay when their snapshot is deleted, and show that."""
    return HostSnapshot.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _consoles(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    gone = Instance.objects.using(alias).filter(uuid=OuterRef("instance_uuid"), deleted_at__lt=database_now(-seconds))
    return ConsoleLog.objects.using(alias).filter(Exists(gone))


def _metrics(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    return GuestCount.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _audit(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    """Return the oldest records of the chain, up to the first one that stays."""
    records = AuditRecord.objects.using(alias)
    young = records.filter(created_at__gte=database_now(-seconds)).aggregate(first=Min("seal"))["first"]
    rows = records.filter(created_at__lt=database_now(-seconds), seal__isnull=False)
    return rows if young is None else rows.filter(seal__lt=young)


def _deliveries(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    return NotificationDelivery.objects.using(alias).filter(tried_at__lt=database_now(-seconds))


def _notices(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    return Notice.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _findings(alias: str, seconds: float, needed: ReferencedRuns) -> Rows:
    is_closed = Q(repaired_at__isnull=False) | Q(gone_at__isnull=False)
    return Finding.objects.using(alias).filter(is_closed, last_seen_at__lt=database_now(-seconds))


KINDS: tuple[PruningRule, ...] = (
    PruningRule("commands", "NOVELLA_KEEP_WORKFLOWS_DAYS", _commands),
    PruningRule("workflows", "NOVELLA_KEEP_WORKFLOWS_DAYS", _workflows, asks_all=True, remove=_remove_workflows),
    PruningRule("fences", "NOVELLA_KEEP_WORKFLOWS_DAYS", _fences, asks_all=True),
    PruningRule("events", "NOVELLA_KEEP_EVENTS_DAYS", _events),
    PruningRule("decisions", "NOVELLA_KEEP_DECISIONS_DAYS", _decisions, _is_api, asks_all=True),
    PruningRule("snapshots", "NOVELLA_KEEP_SNAPSHOTS_DAYS", _snapshots, _is_api),
    PruningRule("consoles", "NOVELLA_KEEP_CONSOLES_DAYS", _consoles, _is_cell),
    PruningRule("metrics", "NOVELLA_KEEP_METRICS_DAYS", _metrics, _is_cell),
    PruningRule("audit", "NOVELLA_KEEP_AUDIT_DAYS", _audit, order="seal", remove=seals.cut),
    PruningRule("deliveries", "NOVELLA_KEEP_DELIVERIES_DAYS", _deliveries),
    PruningRule("notices", "NOVELLA_KEEP_DELIVERIES_DAYS", _notices, _is_api),
    PruningRule("findings", "NOVELLA_KEEP_FINDINGS_DAYS", _findings, _is_api),
)
