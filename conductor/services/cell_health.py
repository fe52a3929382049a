"""How each cell is: its database, its services, its work that waits; and what users see while it is down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Max, Min, Q

from conductor.api_db.models import CellMapping, HostMapping, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.contact import last_answered
from conductor.cells.lookup import API_ALIAS, CELL0, cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NotFound
from conductor.core.phrases import phrase, phrases
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.services import hosts
from conductor.services.conductors import BINARY as CONDUCTOR
from conductor.transactions import database_now, database_time

__all__ = ["Backlog", "CellHealth", "Health", "get", "last_answered", "require_operator", "survey"]

SKEWED_SECONDS = 2.0  # leases go by one database's clock; times of several are compared by people
OVERDUE_SECONDS = 60  # a command that was sent this long ago and has no answer


@dataclass(frozen=True)
class Backlog:
    """The work in one journal: what is open, what waits to be begun and since when, what hosts have not answered."""

    running: int
    queued: int
    oldest_queued_seconds: float
    stuck: int
    unanswered: int
    overdue: int

    @property
    def troubles(self) -> list[str]:
        """What does not go on by itself."""
        found: list[str] = []
        if self.stuck:
            found.append(
                phrases("%(count)s workflow needs an operator.", "%(count)s workflows need an operator.", self.stuck)
            )
        if self.overdue:
            found.append(
                phrases(
                    "%(count)s command to a host has waited for an answer for over a minute.",
                    "%(count)s commands to hosts have waited for an answer for over a minute.",
                    self.overdue,
                )
            )
        return found


@dataclass(frozen=True)
class CellHealth:
    """One cell. Where it is silent only what the API database knows of it is there, and `failure` says why."""

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
        """What is wrong, and what users notice of it, the worst first."""
        if not self.is_up:
            return self._silence
        found: list[str] = []
        if self.is_quarantined:
            found.append(
                phrase(
                    "%(who)s put it in quarantine because: %(reason)s. "
                    "It is left out of lists, and nothing new is sent there.",
                    who=self.quarantined_by,
                    reason=self.quarantine_reason.rstrip("."),
                )
            )
        if self.name != CELL0 and not self.conductors_up:
            found.append(phrase("No conductor of it is heard: what is asked of its servers waits."))
        if self.computes_up < self.computes:
            unheard = self.computes - self.computes_up
            said = phrase("%(count)s of %(all)s compute hosts are not heard.", count=unheard, all=self.computes)
            found.append(said)
        if abs(self.clock_seconds) > SKEWED_SECONDS + self.answered_ms / 1000:
            found.append(
                phrase(
                    "Its database's clock is off by %(seconds)s s: times of its work cannot be compared with others.",
                    seconds=f"{self.clock_seconds:+.1f}",
                )
            )
        if self.lowest_version != self.highest_version:
            found.append(
                phrase(
                    "Its services speak versions %(lowest)s to %(highest)s: all of them go by the lowest until the "
                    "last is upgraded.",
                    lowest=self.lowest_version,
                    highest=self.highest_version,
                )
            )
        return found + (self.backlog.troubles if self.backlog is not None else [])

    @property
    def _silence(self) -> list[str]:
        return [
            phrase("Its database does not answer: %(failure)s", failure=self.failure),
            phrase(
                "%(count)s servers are listed as UNKNOWN, and nothing can be changed about them. "
                "Lists say that this part is missing. New servers go to other cells.",
                count=self.known_servers,
            ),
        ]


@dataclass(frozen=True)
class Health:
    """All cells, and the work at the API level, which belongs to none."""

    cells: list[CellHealth]
    api_backlog: Backlog


def survey(context: RequestContext) -> Health:
    """The health of all cells. Raises Forbidden for others than operators."""
    return Health(_asked(context, cell_aliases()), _backlog(API_ALIAS))


def get(context: RequestContext, name: str) -> CellHealth:
    """The health of one cell, which is asked now and alone. Raises Forbidden, NotFound."""
    require_operator(context)
    if name not in cell_aliases():
        raise NotFound(f"There is no cell {name[:60]}.")
    return _asked(context, [name])[0]


def require_operator(context: RequestContext) -> None:
    """Raises Forbidden for others."""
    if not context.is_admin:
        raise Forbidden("Cells are for operators.")


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
    computes, conductors = Q(binary=hosts.COMPUTE), Q(binary=CONDUCTOR)
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
