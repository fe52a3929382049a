"""Hosts that do not answer: not heard of with servers on them, or with commands that wait."""

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
from conductor.journal.models import OutboxMessage
from conductor.services import hosts
from conductor.services.cell_health import OVERDUE_SECONDS
from conductor.services.triage.values import HELD_UP, LIKELY, PERHAPS, UNTIDY, WAITED_FOR, Advice, TriageItem
from conductor.transactions import database_now

PREFIX = "host:"
SILENT, OFF, UNANSWERED = "host_silent", "host_off", "host_unanswered"
TITLES = {SILENT: "Host is not heard", OFF: "Host is off with servers on it", UNANSWERED: "Host does not answer"}
ADVICE: Mapping[str, Advice] = {
    SILENT: Advice(
        "fence",
        "Say that it is off",
        "It counts as off from then on, so that its servers can be built anew elsewhere. Make sure that it is.",
        PERHAPS,
        is_at_once=False,
        is_danger=True,
    ),
    OFF: Advice(
        "evacuate", "Evacuate", "Its servers are built anew on other hosts.", LIKELY, is_at_once=False, is_danger=True
    ),
}

NOTHING = phrase("Look at the host: its agent is heard, or nothing is left that could be moved.")


@dataclass(frozen=True)
class _Row:
    cell: str
    host: str
    kind: str
    since: datetime
    servers: int
    commands: int


def found() -> tuple[list[TriageItem], Mapping[str, str]]:
    """All of them, and the cells that did not answer."""
    gathered = scatter_gather(_look, cell_aliases(with_cell0=False))
    return [_item(row) for rows in gathered.answers.values() for row in rows], gathered.failures


def _look(alias: str) -> list[_Row]:
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


def _row(alias: str, row: Mapping[str, Any], servers: int, waiting: Mapping[str, Any] | None) -> _Row | None:
    """None for a host that was taken out of service on purpose and has nothing left."""
    commands, since = (waiting["count"], waiting["oldest"]) if waiting else (0, row["last_seen_at"])
    if _is_up(row):
        return _Row(alias, row["host"], UNANSWERED, since, servers, commands)
    if not servers and not commands and (row["is_forced_down"] or row["is_disabled"]):
        return None
    kind = OFF if row["is_forced_down"] else SILENT
    return _Row(alias, row["host"], kind, row["last_seen_at"], servers, commands)


def _item(row: _Row) -> TriageItem:
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


def _why(row: _Row) -> str:
    waits = phrases("%(count)s command to it has no answer", "%(count)s commands to it have no answer", row.commands)
    if row.kind == UNANSWERED:
        return phrase("Its agent is heard, but %(waits)s after %(time)s seconds.", waits=waits, time=OVERDUE_SECONDS)
    said = phrase("Its agent has not reported for too long")
    if row.kind == OFF:
        said = phrase("An operator says that it is off")
    return phrase("%(said)s; %(waits)s.", said=said, waits=waits) if row.commands else phrase("%(said)s.", said=said)


def _hurts(row: _Row) -> str:
    servers = phrases("%(count)s server", "%(count)s servers", row.servers)
    if row.kind == UNANSWERED:
        waiting = phrases("%(count)s workflow", "%(count)s workflows", row.commands)
        return phrase("%(waiting)s; it has %(servers)s", waiting=waiting, servers=servers)
    return phrase("%(servers)s on it", servers=servers) if row.servers else phrase("nobody yet: no server is on it")
