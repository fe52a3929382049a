"""Host problems: hosts that are down and have servers, and hosts with unanswered commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min

from conductor.cell_db.models import Instance
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.phrases import phrase, phrases
from conductor.db.transactions import database_now
from conductor.journal.models import OutboxMessage
from conductor.services.cells.health import OVERDUE_SECONDS
from conductor.services.hosts import hosts
from conductor.services.operations.triage.values import HELD_UP, LIKELY, PERHAPS, UNTIDY, WAITED_FOR, Advice, TriageItem

PREFIX = "host:"
UNRESPONSIVE, OFF, UNANSWERED = "host_unresponsive", "host_off", "host_unanswered"
TITLES = {UNRESPONSIVE: "Host is down", OFF: "Servers on a powered-off host", UNANSWERED: "Host doesn't respond"}
ADVICE: Mapping[str, Advice] = {
    UNRESPONSIVE: Advice(
        "fence",
        "Mark as powered off",
        "Marks the host as powered off so that you can evacuate its servers. Make sure that it has no power.",
        PERHAPS,
        is_at_once=False,
        is_danger=True,
    ),
    OFF: Advice(
        "evacuate", "Evacuate", "Rebuilds the host's servers on other hosts.", LIKELY, is_at_once=False, is_danger=True
    ),
}

NOTHING = phrase("Check the host: its agent is up, or no server is left to evacuate.")


@dataclass(frozen=True)
class _HostProblem:
    cell: str
    host: str
    kind: str
    since: datetime
    servers: int
    commands: int


def found() -> tuple[list[TriageItem], Mapping[str, str]]:
    """Return all host problems, and the cells that are down."""
    gathered = scatter_gather(_look, cell_aliases(with_cell0=False))
    return [_item(row) for rows in gathered.answers.values() for row in rows], gathered.failures


def _look(alias: str) -> list[_HostProblem]:
    overdue = OutboxMessage.objects.using(alias).filter(created_at__lt=database_now(-OVERDUE_SECONDS))
    counted_rows = overdue.exclude(host="").values("host").annotate(count=Count("pk"), oldest=Min("created_at"))
    commands = {row["host"]: row for row in counted_rows.order_by("host")}
    services = list(hosts.services_in(alias).filter(binary=hosts.COMPUTE).values(*_COLUMNS))
    wanted = [row for row in services if not _is_up(row) or row["host"] in commands]
    placed = Instance.objects.using(alias).alive().filter(host__in=[row["host"] for row in wanted])
    servers = dict(placed.values_list("host").annotate(count=Count("pk")).order_by("host"))
    rows = [_row(alias, row, servers.get(row["host"], 0), commands.get(row["host"])) for row in wanted]
    return [row for row in rows if row is not None]


_COLUMNS = ("host", "is_fresh", "is_forced_down", "is_disabled", "last_seen_at")


def _is_up(row: Mapping[str, Any]) -> bool:
    return bool(row["is_fresh"] and not row["is_forced_down"])


def _row(alias: str, row: Mapping[str, Any], servers: int, waiting: Mapping[str, Any] | None) -> _HostProblem | None:
    """Return a host's problem; None for one that was taken out of service and has nothing left."""
    commands, since = (waiting["count"], waiting["oldest"]) if waiting else (0, row["last_seen_at"])
    if _is_up(row):
        return _HostProblem(alias, row["host"], UNANSWERED, since, servers, commands)
    if not servers and not commands and (row["is_forced_down"] or row["is_disabled"]):
        return None
    kind = OFF if row["is_forced_down"] else UNRESPONSIVE
    return _HostProblem(alias, row["host"], kind, row["last_seen_at"], servers, commands)


def _item(row: _HostProblem) -> TriageItem:
    level = WAITED_FOR if row.commands else UNTIDY
    if row.kind != UNANSWERED and row.servers:
        level = HELD_UP
    hurt = row.commands if row.kind == UNANSWERED else row.servers + row.commands
    advice = ADVICE.get(row.kind)
    if row.kind == OFF and not row.servers:
        advice = None
    return TriageItem(
        key=f"{PREFIX}{row.host}",
        kind=row.kind,
        title=TITLES[row.kind],
        name=row.host,
        level=level,
        why=_why(row),
        since=row.since,
        hurts=_hurts(row),
        hurt=hurt,
        cell=row.cell,
        host=row.host,
        advice=advice,
        no_advice="" if advice else NOTHING,
    )


def _why(row: _HostProblem) -> str:
    waits = phrases("%(count)s unanswered command", "%(count)s unanswered commands", row.commands)
    if row.kind == UNANSWERED:
        return phrase(
            "The host's agent is up, but %(waits)s after %(time)s seconds.", waits=waits, time=OVERDUE_SECONDS
        )
    cause = phrase("The host's agent hasn't reported for too long")
    if row.kind == OFF:
        cause = phrase("An operator marked the host as powered off")
    return (
        phrase("%(cause)s; %(waits)s.", cause=cause, waits=waits) if row.commands else phrase("%(cause)s.", cause=cause)
    )


def _hurts(row: _HostProblem) -> str:
    servers = phrases("%(count)s server", "%(count)s servers", row.servers)
    if row.kind == UNANSWERED:
        waiting = phrases("%(count)s workflow", "%(count)s workflows", row.commands)
        return phrase("%(waiting)s; it has %(servers)s", waiting=waiting, servers=servers)
    return phrase("%(servers)s on it", servers=servers) if row.servers else phrase("no users: the host has no servers")
