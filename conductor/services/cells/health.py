"""Health of each cell: its database, services and backlog, and what users see while it is down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Max, Min, Q

from conductor.api_db.models import CellMapping, HostMapping, InstanceMapping
from conductor.cell_db.models import Instance, Service
from conductor.cells.lookup import API_ALIAS, CELL0, cell_aliases
from conductor.cells.scatter_gather import last_answered, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NotFound
from conductor.core.phrases import phrase, phrases
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.hosts import hosts

__all__ = ["Backlog", "CellHealth", "Health", "get", "last_answered", "require_operator", "survey"]

SKEWED_SECONDS = 2.0  # leases use one database's clock, but people compare times of several
OVERDUE_SECONDS = 60  # a command that was sent this long ago and has no answer


@dataclass(frozen=True)
class Backlog:
    """The work in one journal: open runs, queued runs and their age, and commands that hosts have not answered."""

    running: int
    queued: int
    oldest_queued_seconds: float
    stuck: int
    unanswered: int
    overdue: int

    @property
    def troubles(self) -> list[str]:
        """Problems that need an operator."""
        found: list[str] = []
        if self.stuck:
            found.append(
                phrases("%(count)s workflow needs an operator.", "%(count)s workflows need an operator.", self.stuck)
            )
        if self.overdue:
            found.append(
                phrases(
                    "%(count)s host command has been unanswered for over a minute.",
                    "%(count)s host commands have been unanswered for over a minute.",
                    self.overdue,
                )
            )
        return found


@dataclass(frozen=True)
class CellHealth:
    """Health of one cell.

    While the cell is down only the facts of the API database are filled in, and `failure` gives the reason.
    """

    name: str
    is_up: bool
    is_disabled: bool
    known_hosts: int
    known_servers: int
    disabled_reason: str = ""
    is_quarantined: bool = False
    quarantined_by: str = ""
    quarantine_reason: str = ""
    failure: str = ""
    answered_ms: float = 0.0
    clock_seconds: float = 0.0  # how far its database's clock is ahead of this process's
    computes: int = 0
    computes_up: int = 0
    computes_closed: int = 0
    conductors: int = 0
    conductors_up: int = 0
    oldest_report_seconds: float | None = None  # of the computes that are up
    lowest_version: int | None = None
    highest_version: int | None = None
    servers: int = 0
    servers_in_error: int = 0
    backlog: Backlog | None = None

    @property
    def troubles(self) -> list[str]:
        """Problems of the cell and their effect on users, worst first."""
        if not self.is_up:
            return self._silence
        found: list[str] = []
        if self.is_quarantined:
            found.append(
                phrase(
                    "Quarantined by %(who)s: %(reason)s. Lists omit the cell, and no new work is sent to it.",
                    who=self.quarantined_by,
                    reason=self.quarantine_reason.rstrip("."),
                )
            )
        if self.name != CELL0 and not self.conductors_up:
            found.append(phrase("The cell has no running conductor. Requests for its servers wait."))
        if self.computes_up < self.computes:
            unheard = self.computes - self.computes_up
            message = phrase("%(count)s of %(all)s compute hosts are down.", count=unheard, all=self.computes)
            found.append(message)
        if abs(self.clock_seconds) > SKEWED_SECONDS + self.answered_ms / 1000:
            found.append(
                phrase(
                    (
                        "The clock of the cell's database is off by %(seconds)s s, so its timestamps can't "
                        "be compared with others."
                    ),
                    seconds=f"{self.clock_seconds:+.1f}",
                )
            )
        if self.lowest_version != self.highest_version:
            found.append(
                phrase(
                    (
                        "The cell's services run versions %(lowest)s to %(highest)s. All use the lowest "
                        "version until the last service is upgraded."
                    ),
                    lowest=self.lowest_version,
                    highest=self.highest_version,
                )
            )
        return found + (self.backlog.troubles if self.backlog is not None else [])

    @property
    def _silence(self) -> list[str]:
        return [
            phrase("The cell's database doesn't respond: %(failure)s", failure=self.failure),
            phrase(
                (
                    "%(count)s servers are listed as UNKNOWN and can't be changed. Lists are marked as "
                    "incomplete. New servers go to other cells."
                ),
                count=self.known_servers,
            ),
        ]


@dataclass(frozen=True)
class Health:
    """Health of all cells, and the backlog at the API level, which belongs to no cell."""

    cells: list[CellHealth]
    api_backlog: Backlog


def survey(context: RequestContext) -> Health:
    """Return the health of all cells. Raises Forbidden for callers other than operators."""
    return Health(_asked(context, cell_aliases()), _backlog(API_ALIAS))


def get(context: RequestContext, name: str) -> CellHealth:
    """Return the health of one cell, without querying others. Raises Forbidden, NotFound."""
    require_operator(context)
    if name not in cell_aliases():
        raise NotFound(phrase("There is no cell %(name)s.", name=name[:60]))
    return _asked(context, [name])[0]


def require_operator(context: RequestContext) -> None:
    """Raise Forbidden for callers other than operators."""
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see cells."))


def _asked(context: RequestContext, names: Sequence[str]) -> list[CellHealth]:
    require_operator(context)
    mappings = {one.name: one for one in CellMapping.objects.all()}
    host_counts = _counts(HostMapping.objects.values_list("cell__name"))
    server_counts = _counts(InstanceMapping.objects.filter(is_deleted=False).values_list("cell__name"))
    found = scatter_gather(_look, names, asks_quarantined=True)
    cells = []
    for name in names:
        mapping = mappings.get(name)
        cells.append(
            CellHealth(
                name=name,
                is_up=name in found.answers,
                is_disabled=mapping is not None and mapping.is_disabled,
                disabled_reason=mapping.disabled_reason if mapping is not None else "",
                is_quarantined=mapping is not None and mapping.is_quarantined,
                quarantined_by=mapping.quarantined_by if mapping is not None else "",
                quarantine_reason=mapping.quarantine_reason if mapping is not None else "",
                known_hosts=host_counts.get(name, 0),
                known_servers=server_counts.get(name, 0),
                failure=found.failures.get(name, ""),
                **found.answers.get(name, {}),
            )
        )
    return cells


def _counts(rows: Any) -> dict[str, int]:
    return dict(rows.annotate(count=Count("pk")).order_by("cell__name"))


def _look(alias: str) -> dict[str, Any]:
    asked_at, begun = datetime.now(UTC), time.perf_counter()
    now = database_time(alias)
    answered_ms = (time.perf_counter() - begun) * 1000
    up = Q(is_fresh=True, is_forced_down=False)
    computes, conductors = Q(binary=hosts.COMPUTE), Q(binary=BINARY)
    services = hosts.services_in(alias).aggregate(
        computes=Count("pk", filter=computes),
        computes_up=Count("pk", filter=computes & up),
        computes_closed=Count("pk", filter=computes & Q(is_disabled=True)),
        conductors=Count("pk", filter=conductors),
        conductors_up=Count("pk", filter=conductors & up),
        oldest=Min("last_seen_at", filter=computes & up),
        lowest_version=Min("version", filter=up),
        highest_version=Max("version", filter=up),
    )
    oldest: datetime | None = services.pop("oldest")
    servers = Instance.objects.using(alias).alive()
    counted = servers.aggregate(servers=Count("pk"), servers_in_error=Count("pk", filter=Q(vm_state="error")))
    return {
        **services,
        **counted,
        "answered_ms": answered_ms,
        "clock_seconds": (now - asked_at).total_seconds() - answered_ms / 2000,
        "oldest_report_seconds": None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        "backlog": _backlog(alias),
    }


def _backlog(alias: str) -> Backlog:
    queued = Q(state=RunState.QUEUED)
    stuck = Q(state=RunState.NEEDS_OPERATOR)
    runs = WorkflowRun.objects.using(alias).filter(Q(state__in=LIVE_RUN_STATES) | stuck)
    counted = runs.aggregate(
        running=Count("pk", filter=~queued & ~stuck),
        queued=Count("pk", filter=queued),
        oldest=Min("created_at", filter=queued),
        stuck=Count("pk", filter=stuck),
    )
    oldest = counted.pop("oldest")
    age = (database_time(alias) - oldest).total_seconds() if oldest is not None else 0.0
    sent = OutboxMessage.objects.using(alias).aggregate(
        unanswered=Count("pk"), overdue=Count("pk", filter=Q(created_at__lt=database_now(-OVERDUE_SECONDS)))
    )
    return Backlog(oldest_queued_seconds=max(0.0, age), **counted, **sent)


BINARY = "nova-conductor"


def record(cell: str, name: str) -> None:
    """Record a heartbeat of the conductor `name` of `cell`. The first one creates its row."""
    with write_tx(cell):
        ours = Service.objects.using(cell).filter(binary=BINARY, host=name)
        if not ours.update(last_seen_at=database_now(), version=SERVICE_VERSION):
            Service.objects.using(cell).get_or_create(
                binary=BINARY,
                host=name,
                defaults={
                    "version": SERVICE_VERSION,
                    "availability_zone": "internal",
                    "last_seen_at": database_now(),
                    "created_at": database_now(),
                },
            )
