"""What is pruned: per kind where it lies, how long it is kept, and which of its rows are over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, Max, Min, OuterRef, Q, QuerySet

from conductor.api_db.models import Finding, HostSnapshot, Notice, SchedulingDecision
from conductor.cell_db.models import ConsoleLog, GuestCount, Instance
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.core.states import FINAL_RUN_STATES
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
from conductor.services import audit_seals
from conductor.services.pruning.needed import Needed
from conductor.transactions import database_now

Rows = QuerySet[Any]


@dataclass(frozen=True)
class Kind:
    """`over(alias, seconds, needed)` are the rows that are older than `seconds` and that nobody needs.

    `asks_all` is set where a database that does not answer might need them. They go in `order`; `remove(alias, rows)`
    says how many went.
    """

    name: str
    setting: str
    over: Callable[[str, float, Needed], Rows]
    is_in: Callable[[str], bool] = lambda alias: True
    asks_all: bool = False
    order: str = "pk"
    remove: Callable[[str, Rows], int] = lambda alias, rows: rows.delete()[0]


def _is_api(alias: str) -> bool:
    return alias == API_ALIAS


def _is_cell(alias: str) -> bool:
    return alias not in (API_ALIAS, CELL0)


def _workflows(alias: str, seconds: float, needed: Needed) -> Rows:
    """With their steps and leases. One that still holds or waits for something is for the reconciler."""
    held = ResourceLock.objects.using(alias).filter(run=OuterRef("pk"))
    waits = LockWait.objects.using(alias).filter(run=OuterRef("pk"))
    rows = WorkflowRun.objects.using(alias).filter(
        ~Exists(held), ~Exists(waits), state__in=FINAL_RUN_STATES, finished_at__lt=database_now(-seconds)
    )
    return rows.exclude(uuid__in=needed.run_uuids)


def _commands(alias: str, seconds: float, needed: Needed) -> Rows:
    """Commands of workflows that have ended, which no host must carry out any more."""
    rows = OutboxMessage.objects.using(alias).filter(is_owed=False, created_at__lt=database_now(-seconds))
    return rows.exclude(run_uuid__in=needed.run_uuids)


def _fences(alias: str, seconds: float, needed: Needed) -> Rows:
    """Tokens that workflows of other databases have left here, of those that are gone there.

    A fence outlives its workflow's row, so that whoever slept for as long as that is kept meets one of the two.
    """
    return ForeignFence.objects.using(alias).filter(run_uuid__in=needed.gone(alias))


def _events(alias: str, seconds: float, needed: Needed) -> Rows:
    """Those that every sink has been told of. The last one stays: it says where the log stands."""
    events = Event.objects.using(alias)
    newest = events.aggregate(newest=Max("pk"))["newest"] or 0
    told = NotificationPlace.objects.using(alias).aggregate(told=Min("reached"))["told"]
    rows = events.filter(created_at__lt=database_now(-seconds), pk__lt=newest)
    if told is not None:
        rows = rows.filter(pk__lte=told)
    return rows.exclude(run_uuid__in=needed.run_uuids)


def _decisions(alias: str, seconds: float, needed: Needed) -> Rows:
    rows = SchedulingDecision.objects.using(alias).filter(created_at__lt=database_now(-seconds))
    return rows.exclude(run_uuid__in=needed.run_uuids)


def _snapshots(alias: str, seconds: float, needed: Needed) -> Rows:
    """A decision whose snapshot is gone says so; what was decided stays as it is."""
    return HostSnapshot.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _consoles(alias: str, seconds: float, needed: Needed) -> Rows:
    gone = Instance.objects.using(alias).filter(uuid=OuterRef("instance_uuid"), deleted_at__lt=database_now(-seconds))
    return ConsoleLog.objects.using(alias).filter(Exists(gone))


def _metrics(alias: str, seconds: float, needed: Needed) -> Rows:
    return GuestCount.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _audit(alias: str, seconds: float, needed: Needed) -> Rows:
    """The oldest of the chain: none that was sealed after one that stays."""
    records = AuditRecord.objects.using(alias)
    young = records.filter(created_at__gte=database_now(-seconds)).aggregate(first=Min("seal"))["first"]
    rows = records.filter(created_at__lt=database_now(-seconds), seal__isnull=False)
    return rows if young is None else rows.filter(seal__lt=young)


def _deliveries(alias: str, seconds: float, needed: Needed) -> Rows:
    return NotificationDelivery.objects.using(alias).filter(tried_at__lt=database_now(-seconds))


def _notices(alias: str, seconds: float, needed: Needed) -> Rows:
    return Notice.objects.using(alias).filter(created_at__lt=database_now(-seconds))


def _findings(alias: str, seconds: float, needed: Needed) -> Rows:
    is_closed = Q(repaired_at__isnull=False) | Q(gone_at__isnull=False)
    return Finding.objects.using(alias).filter(is_closed, last_seen_at__lt=database_now(-seconds))


KINDS: tuple[Kind, ...] = (
    Kind("commands", "NOVELLA_KEEP_WORKFLOWS_DAYS", _commands),
    Kind("workflows", "NOVELLA_KEEP_WORKFLOWS_DAYS", _workflows, asks_all=True),
    Kind("fences", "NOVELLA_KEEP_WORKFLOWS_DAYS", _fences, asks_all=True),
    Kind("events", "NOVELLA_KEEP_EVENTS_DAYS", _events),
    Kind("decisions", "NOVELLA_KEEP_DECISIONS_DAYS", _decisions, _is_api, asks_all=True),
    Kind("snapshots", "NOVELLA_KEEP_SNAPSHOTS_DAYS", _snapshots, _is_api),
    Kind("consoles", "NOVELLA_KEEP_CONSOLES_DAYS", _consoles, _is_cell),
    Kind("metrics", "NOVELLA_KEEP_METRICS_DAYS", _metrics, _is_cell),
    Kind("audit", "NOVELLA_KEEP_AUDIT_DAYS", _audit, order="seal", remove=audit_seals.cut),
    Kind("deliveries", "NOVELLA_KEEP_DELIVERIES_DAYS", _deliveries),
    Kind("notices", "NOVELLA_KEEP_DELIVERIES_DAYS", _notices, _is_api),
    Kind("findings", "NOVELLA_KEEP_FINDINGS_DAYS", _findings, _is_api),
)
