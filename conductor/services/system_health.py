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
from conductor.core.phrases import phrase, phrases
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
KIND, API_LEVEL = phrase("Kind"), phrase("API level")
KINDS = {"sqlite": phrase("SQLite file"), "postgresql": "PostgreSQL"}


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
    troubles: list[str] = [
        phrase("Its tables are not those of this version: %(why)s.", why=why) for why in behind.values()
    ]
    if answered_ms > SLOW_MS:
        troubles.append(phrase("It takes %(time)s to answer the shortest question.", time=f"{answered_ms:.0f} ms"))
    facts = (
        (KIND, KINDS.get(connections[alias].vendor, phrase("other"))),
        (phrase("Answers within"), f"{answered_ms:.1f} ms"),
        (phrase("Tables"), phrase("as this version wants them") if not behind else phrase("to be migrated")),
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
        troubles=(phrase("It does not answer: %(why)s.", why=cell.failure),),
        name=cell.name,
    )
    if not cell.is_up:
        return silent
    return _database(cell.name, cell.answered_ms, title=silent.title, risk=silent.risk, name=cell.name)


def _reached(ident: str, url: str, *, title: str, risk: str, without: str) -> Component:
    """A service at a URL: whether anything takes a connection there; `without` is what is used where there is none."""
    if not url:
        return Component(ident, title, OFF, risk, ((phrase("Instead"), without),))
    found: list[tuple[str, str]] = []
    troubles: list[str] = []
    for host, port in _addresses(url):
        begun = time.perf_counter()
        try:
            with socket.create_connection((host, port), timeout=REACH_SECONDS):
                taken_ms = (time.perf_counter() - begun) * 1000
                found.append((f"{host}:{port}", phrase("takes connections within %(time)s", time=f"{taken_ms:.0f} ms")))
        except OSError as error:
            found.append((f"{host}:{port}", phrase("does not answer")))
            why = error.strerror or phrase("no answer in time")
            troubles.append(phrase("%(place)s does not answer: %(why)s.", place=f"{host}:{port}", why=why))
    state = UP if not troubles else DOWN if len(troubles) == len(found) else LOOK
    return Component(ident, title, state, risk, ((KIND, urlsplit(url).scheme), *found), tuple(troubles))


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
        without=phrase("the memory of this process"),
    )


def _channels() -> Component:
    return _reached(
        "channels",
        settings.NOVELLA_CHANNEL_URL,
        title="Channel layer",
        risk="Live pages hear of changes later: within five seconds.",
        without=phrase("a look into the event log three times a second"),
    )


def _membership() -> Component:
    return _reached(
        "membership",
        settings.NOVELLA_MEMBERSHIP_URL,
        title="Group service",
        risk="A conductor that dies is noticed later: by its lease, instead of at once.",
        without=phrase("the leases alone"),
    )


def _conductors(health: Health) -> Component:
    troubles = [
        phrase("No conductor of %(cell)s is heard.", cell=cell.name)
        for cell in health.cells
        if cell.is_up and cell.known_hosts and not cell.conductors_up
    ]
    facts = tuple(
        (one.name, phrase("%(up)s of %(count)s up", up=one.conductors_up, count=one.conductors))
        for one in health.cells
        if one.conductors
    )
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
    troubles = (phrase("%(silent)s of %(count)s are not heard.", silent=total - up, count=total),) if up < total else ()
    facts = tuple((one.name, _computes_of(one)) for one in health.cells if one.computes)
    state = DOWN if total and not up else LOOK if troubles or not total else UP
    return Component(
        id="computes",
        title="Compute hosts",
        state=state,
        risk="Servers of a host that is not heard may run on, but nothing can be done to them. New ones go elsewhere.",
        facts=facts,
        troubles=troubles or (() if total else (phrase("There is none."),)),
    )


def _computes_of(cell: CellHealth) -> str:
    if not cell.computes_closed:
        return phrase("%(up)s of %(count)s up", up=cell.computes_up, count=cell.computes)
    return phrase(
        "%(up)s of %(count)s up, %(closed)s closed",
        up=cell.computes_up,
        count=cell.computes,
        closed=cell.computes_closed,
    )


def _queue(health: Health) -> Component:
    found: list[tuple[str, Backlog]] = [(API_LEVEL, health.api_backlog)]
    found += [(one.name, one.backlog) for one in health.cells if one.backlog is not None]
    troubles: list[str] = []
    facts: list[tuple[str, str]] = []
    for name, backlog in found:
        facts.append((name, _work(backlog)))
        if backlog.queued and backlog.oldest_queued_seconds > LATE_SECONDS:
            waited = round(backlog.oldest_queued_seconds)
            troubles.append(
                phrase("In %(name)s work has waited for %(time)s seconds to be begun.", name=name, time=waited)
            )
        if backlog.overdue:
            troubles.append(
                phrases(
                    "In %(name)s %(count)s command to a host has no answer for over a minute.",
                    "In %(name)s %(count)s commands to hosts have no answer for over a minute.",
                    backlog.overdue,
                    name=name,
                )
            )
        if backlog.stuck:
            troubles.append(
                phrases(
                    "In %(name)s %(count)s workflow needs an operator.",
                    "In %(name)s %(count)s workflows need an operator.",
                    backlog.stuck,
                    name=name,
                )
            )
    return Component(
        id="queue",
        title="Work that waits",
        state=LOOK if troubles else UP,
        risk="What users ask for takes longer. Nothing that was accepted is lost.",
        facts=tuple(facts),
        troubles=tuple(troubles),
    )


def _work(backlog: Backlog) -> str:
    return phrase(
        "%(running)s under way, %(queued)s waiting, %(unanswered)s not answered",
        running=backlog.running,
        queued=backlog.queued,
        unanswered=backlog.unanswered,
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
    facts: list[tuple[str, str]] = []
    troubles: list[str] = []
    for alias, found in logs.items():
        title = API_LEVEL if alias == API_ALIAS else alias
        newest = phrase("none yet")
        if found.newest_seconds is not None:
            newest = phrase("newest %(time)s ago", time=f"{found.newest_seconds:.0f} s")
        facts.append((title, newest))
        for sink, behind in found.behind.items():
            if behind > BEHIND_EVENTS:
                troubles.append(
                    phrase("%(sink)s is %(behind)s events behind in %(log)s.", sink=sink, behind=behind, log=title)
                )
        failing = [
            phrase("%(sink)s could not be told in %(log)s: see its log.", sink=sink, log=title)
            for sink in found.failing
        ]
        troubles += failing
    most = max((behind for found in logs.values() for behind in found.behind.values()), default=None)
    behind_most = phrases("%(count)s event", "%(count)s events", most) if most is not None else phrase("nobody is told")
    facts.append((phrase("Behind at most"), behind_most))
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
        (phrase("Directory"), str(settings.NOVELLA_DATA)),
        (phrase("Free"), phrase("%(free)s of %(all)s GB (%(share)s)", **_gigabytes(usage.free, usage.total))),
    )
    troubles = (
        (phrase("Only %(share)s of the disk is free.", share=f"{share:.0%}"),) if share < LEAST_FREE_SHARE else ()
    )
    return Component(
        id="disk",
        title="Disk of the data directory",
        state=LOOK if troubles else UP,
        risk="A full disk stops everything that writes: requests are answered with 503 and guests may pause.",
        facts=facts,
        troubles=troubles,
    )


def _gigabytes(free: int, total: int) -> dict[str, str]:
    share = free / total if total else 0.0
    return {"free": f"{free / GB:.1f}", "all": f"{total / GB:.1f}", "share": f"{share:.0%}"}


def _plugins() -> Component:
    remarks: dict[str, Any] = readiness.remarks().get("remarks", {})
    troubles = tuple(f"{name.capitalize()}: {words}." for name, words in remarks.items())
    facts = tuple((name.capitalize(), words) for name, words in remarks.items()) or (
        (phrase("Quarantine"), phrase("nothing in it")),
    )
    return Component(
        id="plugins",
        title="Plugins",
        state=LOOK if troubles else UP,
        risk="Decisions go on without a plugin that is shut out, as its rule says.",
        facts=facts,
        troubles=troubles,
    )
