"""How the whole cloud is: what it is made of, how each part is now, and what users notice when one is down."""

from __future__ import annotations

import shutil
import socket
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections
from django.db.models import Max

from conductor.cells.lookup import API_ALIAS
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.journal.models import Event, NotificationPlace
from conductor.services import cell_health, readiness
from conductor.services.cell_health import Backlog, CellHealth, Health
from conductor.transactions import database_time

UP, LOOK, DOWN, OFF = "up", "look at it", "down", "not used"
ORDER = (DOWN, LOOK, UP, OFF)
SLOW_MS = 200.0
LATE_SECONDS = 60.0
BEHIND_EVENTS = 1000
REACH_SECONDS = 1.0
LEAST_FREE_SHARE = 0.1
PORTS = {"amqp": 5672, "amqps": 5671, "redis": 6379, "rediss": 6379, "zookeeper": 2181, "etcd": 2379}
GB = 1 << 30


@dataclass(frozen=True)
class Component:
    """One part. `troubles` says what is wrong, `facts` what was measured, `risk` what users see while it is down."""

    id: str
    title: str
    state: str
    risk: str
    facts: tuple[tuple[str, str], ...] = ()
    troubles: tuple[str, ...] = ()
    name: str = ""  # of which one, where there are several


@dataclass(frozen=True)
class SystemHealth:
    """All parts, the worst first."""

    parts: list[Component]

    @property
    def bad(self) -> int:
        return sum(part.state in (DOWN, LOOK) for part in self.parts)


@dataclass(frozen=True)
class _Log:
    """The event log of one database: its age, and how far those who are told of it are behind."""

    newest_seconds: float | None = None
    behind: dict[str, int] = field(default_factory=dict)
    failing: tuple[str, ...] = ()


def survey(context: RequestContext) -> SystemHealth:
    """Ask everything once. Raises Forbidden for others than operators."""
    if not context.is_admin:
        raise Forbidden("The health of the system is for operators.")
    health = cell_health.survey(context)
    logs = scatter_gather(_event_log, [API_ALIAS, *(one.name for one in health.cells if one.is_up)])
    parts = [
        _api_database(),
        *(_cell_database(cell) for cell in health.cells),
        _broker(),
        _conductors(health),
        _computes(health),
        _queue(health),
        _events(logs.answers),
        _channels(),
        _membership(),
        _disk(),
        _plugins(),
    ]
    return SystemHealth(sorted(parts, key=lambda part: ORDER.index(part.state)))


def _database(alias: str, answered_ms: float, *, title: str, risk: str, name: str = "") -> Component:
    behind = readiness.missing((alias,))
    troubles = [f"Its tables are not those of this version: {why}." for why in behind.values()]
    if answered_ms > SLOW_MS:
        troubles.append(f"It takes {answered_ms:.0f} ms to answer the shortest question.")
    facts = (
        ("Kind", {"sqlite": "SQLite file", "postgresql": "PostgreSQL"}.get(connections[alias].vendor, "other")),
        ("Answers within", f"{answered_ms:.1f} ms"),
        ("Tables", "as this version wants them" if not behind else "to be migrated"),
    )
    state = LOOK if troubles else UP
    return Component(f"database-{alias}", title, state, risk, facts, tuple(troubles), name)


def _api_database() -> Component:
    begun = time.perf_counter()
    database_time(API_ALIAS)
    return _database(
        API_ALIAS,
        (time.perf_counter() - begun) * 1000,
        title="Database of the API",
        risk="No page and no API answers but with 503: people, networks, volumes and images are in it. Servers run on.",
    )


def _cell_database(cell: CellHealth) -> Component:
    silent = Component(
        id=f"database-{cell.name}",
        title="Database",
        state=DOWN,
        risk="Lists name the missing part; its servers are UNKNOWN and nothing can be changed about them. They run on, "
        "and new ones go to other cells.",
        troubles=(f"It does not answer: {cell.failure}.",),
        name=cell.name,
    )
    if not cell.is_up:
        return silent
    return _database(cell.name, cell.answered_ms, title=silent.title, risk=silent.risk, name=cell.name)


def _reached(ident: str, url: str, *, title: str, risk: str, without: str) -> Component:
    """A service at a URL: whether anything takes a connection there; `without` is what is used where there is none."""
    if not url:
        return Component(ident, title, OFF, risk, (("Instead", without),))
    found, troubles = [], []
    for host, port in _addresses(url):
        begun = time.perf_counter()
        try:
            with socket.create_connection((host, port), timeout=REACH_SECONDS):
                taken_ms = (time.perf_counter() - begun) * 1000
                found.append((f"{host}:{port}", f"takes connections within {taken_ms:.0f} ms"))
        except OSError as error:
            found.append((f"{host}:{port}", "does not answer"))
            troubles.append(f"{host}:{port} does not answer: {error.strerror or 'no answer in time'}.")
    state = UP if not troubles else DOWN if len(troubles) == len(found) else LOOK
    return Component(ident, title, state, risk, (("Kind", urlsplit(url).scheme), *found), tuple(troubles))


def _addresses(url: str) -> list[tuple[str, int]]:
    """Where the service listens: several, where a group service names them."""
    parts = urlsplit(url)
    found = []
    for one in parts.netloc.rpartition("@")[2].split(","):
        single = urlsplit(f"//{one}")
        found.append((single.hostname or "localhost", single.port or PORTS.get(parts.scheme, 0)))
    return found


def _broker() -> Component:
    return _reached(
        "broker",
        settings.NOVELLA_BROKER_URL,
        title="Message broker",
        risk="Work begins later: nothing is lost, the sweep of the conductors takes it up within seconds.",
        without="the memory of this process",
    )


def _channels() -> Component:
    return _reached(
        "channels",
        settings.NOVELLA_CHANNEL_URL,
        title="Channel layer",
        risk="Live pages hear of changes later: within 15 seconds.",
        without="a look into the event log three times a second",
    )


def _membership() -> Component:
    return _reached(
        "membership",
        settings.NOVELLA_MEMBERSHIP_URL,
        title="Group service",
        risk="A conductor that dies is noticed later: by its lease, instead of at once.",
        without="the leases alone",
    )


def _conductors(health: Health) -> Component:
    troubles = [
        f"No conductor of {cell.name} is heard."
        for cell in health.cells
        if cell.is_up and cell.known_hosts and not cell.conductors_up
    ]
    facts = tuple((one.name, f"{one.conductors_up} of {one.conductors} up") for one in health.cells if one.conductors)
    return Component(
        id="conductors",
        title="Conductors",
        state=DOWN if troubles else UP,
        risk="What is asked for is taken and waits: servers stay in BUILD, or with their task, until one is back.",
        facts=facts,
        troubles=tuple(troubles),
    )


def _computes(health: Health) -> Component:
    total, up = (sum(getattr(one, name) for one in health.cells) for name in ("computes", "computes_up"))
    troubles = (f"{total - up} of {total} are not heard.",) if up < total else ()
    facts = tuple(
        (
            one.name,
            f"{one.computes_up} of {one.computes} up{f', {one.computes_closed} closed' * bool(one.computes_closed)}",
        )
        for one in health.cells
        if one.computes
    )
    state = DOWN if total and not up else LOOK if troubles or not total else UP
    return Component(
        id="computes",
        title="Compute hosts",
        state=state,
        risk="Servers of a host that is not heard may run on, but nothing can be done to them. New ones go elsewhere.",
        facts=facts,
        troubles=troubles or (() if total else ("There is none.",)),
    )


def _queue(health: Health) -> Component:
    found: list[tuple[str, Backlog]] = [("API level", health.api_backlog)]
    found += [(one.name, one.backlog) for one in health.cells if one.backlog is not None]
    troubles, facts = [], []
    for name, backlog in found:
        facts.append(
            (name, f"{backlog.running} under way, {backlog.queued} waiting, {backlog.unanswered} not answered")
        )
        if backlog.queued and backlog.oldest_queued_seconds > LATE_SECONDS:
            troubles.append(f"In {name} work has waited for {backlog.oldest_queued_seconds:.0f} seconds to be begun.")
        if backlog.overdue:
            troubles.append(f"In {name} {backlog.overdue} commands to hosts have no answer for over a minute.")
        if backlog.stuck:
            troubles.append(f"In {name} {backlog.stuck} workflows need an operator.")
    return Component(
        id="queue",
        title="Work that waits",
        state=LOOK if troubles else UP,
        risk="What users ask for takes longer. Nothing that was accepted is lost.",
        facts=tuple(facts),
        troubles=tuple(troubles),
    )


def _event_log(alias: str) -> _Log:
    told = Event.objects.using(alias).aggregate(last=Max("pk"), newest=Max("created_at"))
    places = list(NotificationPlace.objects.using(alias).values_list("sink", "reached", "last_error"))
    last, newest = told["last"], told["newest"]
    age = None if newest is None else max(0.0, (database_time(alias) - newest).total_seconds())
    behind = {_sink(sink): max(0, (last or 0) - reached) for sink, reached, _ in places}
    return _Log(age, behind, tuple(_sink(sink) for sink, _, error in places if error))


def _sink(name: str) -> str:
    """A sink may be named by an address that holds a token: its path and query are left out."""
    kind, sign, address = name.partition("://")
    return f"{kind}://{address.rpartition('@')[2].split('/')[0].split('?')[0]}" if sign else name


def _events(logs: dict[str, _Log]) -> Component:
    facts, troubles = [], []
    for alias, found in logs.items():
        title = "API level" if alias == API_ALIAS else alias
        facts.append(
            (title, "none yet" if found.newest_seconds is None else f"newest {found.newest_seconds:.0f} s ago")
        )
        for sink, behind in found.behind.items():
            if behind > BEHIND_EVENTS:
                troubles.append(f"{sink} is {behind} events behind in {title}.")
        troubles += [f"{sink} could not be told in {title}: see its log." for sink in found.failing]
    most = max((behind for found in logs.values() for behind in found.behind.values()), default=None)
    facts.append(("Behind at most", "nobody is told" if most is None else f"{most} events"))
    return Component(
        id="events",
        title="Event log",
        state=LOOK if troubles else UP,
        risk="Notifications and webhooks come later, each once and in order.",
        facts=tuple(facts),
        troubles=tuple(troubles),
    )


def _disk() -> Component:
    usage = shutil.disk_usage(settings.NOVELLA_DATA)
    share = usage.free / usage.total if usage.total else 0.0
    facts = (
        ("Directory", str(settings.NOVELLA_DATA)),
        ("Free", f"{usage.free / GB:.1f} of {usage.total / GB:.1f} GB ({share:.0%})"),
    )
    troubles = (f"Only {share:.0%} of the disk is free.",) if share < LEAST_FREE_SHARE else ()
    return Component(
        id="disk",
        title="Disk of the data directory",
        state=LOOK if troubles else UP,
        risk="A full disk stops everything that writes: requests are answered with 503 and guests may pause.",
        facts=facts,
        troubles=troubles,
    )


def _plugins() -> Component:
    remarks: dict[str, Any] = readiness.remarks().get("remarks", {})
    troubles = tuple(f"{name.capitalize()}: {words}." for name, words in remarks.items())
    facts = tuple((name.capitalize(), words) for name, words in remarks.items()) or (("Quarantine", "nothing in it"),)
    return Component(
        id="plugins",
        title="Plugins",
        state=LOOK if troubles else UP,
        risk="Decisions go on without a plugin that is shut out, as its rule says.",
        facts=facts,
        troubles=troubles,
    )
