"""Health of the whole cloud: its components, their state, and what users notice when one is down."""

from __future__ import annotations

import shutil
import socket
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections
from django.db.models import Max

from conductor.cells import schedulers
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.cells.scatter_gather import scatter_gather
from conductor.cells.schedulers import Scheduler
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.phrases import Phrase, phrase, phrases
from conductor.db.transactions import database_time
from conductor.identity import effective
from conductor.journal.models import Event, NotificationPlace
from conductor.services.cells import health as cell_health
from conductor.services.cells.health import Backlog, CellHealth, Health
from conductor.services.networks import ovn_state
from conductor.services.operations import readiness

UP, LOOK, DOWN, OFF = "up", "look at it", "down", "not configured"
ORDER = (DOWN, LOOK, UP, OFF)
SLOW_MS = 200.0
LATE_SECONDS = 60.0
NORTHD_SECONDS = 5.0  # that northd may take for all networks
BEHIND_EVENTS = 1000
REACH_SECONDS = 1.0
LEAST_FREE_SHARE = 0.1
PORTS = {"amqp": 5672, "amqps": 5671, "redis": 6379, "rediss": 6379, "zookeeper": 2181, "etcd": 2379}
GB = 1 << 30
KIND, API_LEVEL = phrase("Kind"), phrase("API level")
KINDS = {"sqlite": phrase("SQLite file"), "postgresql": "PostgreSQL"}


@dataclass(frozen=True)
class Component:
    """One component. `troubles` are its problems, `facts` measurements, and `risk` the effect on users while it is
    down.
    """

    id: str
    title: str
    state: str
    risk: str
    facts: tuple[tuple[str, str], ...] = ()
    troubles: tuple[str, ...] = ()
    name: str = ""  # which one, where there are several


@dataclass(frozen=True)
class SystemHealth:
    """Health of all components, the worst first."""

    parts: list[Component]

    @property
    def bad(self) -> int:
        return sum(part.state in (DOWN, LOOK) for part in self.parts)


@dataclass(frozen=True)
class _Log:
    """The event log of one database: its age, and how far its sinks are behind."""

    newest_seconds: float | None = None
    behind: dict[str, int] = field(default_factory=dict)
    failing: tuple[str, ...] = ()


def survey(context: RequestContext) -> SystemHealth:
    """Check all components once. Raises Forbidden for callers other than operators."""
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see system health."))
    health = cell_health.survey(context)
    logs = scatter_gather(_event_log, [API_ALIAS, *(one.name for one in health.cells if one.is_up)])
    parts = [
        _api_database(),
        *(_cell_database(cell) for cell in health.cells),
        _broker(),
        _conductors(health),
        _schedulers(health),
        _computes(health),
        _queue(health),
        _events(logs.answers),
        _channels(),
        _membership(),
        _ovn(),
        _disk(),
        _plugins(),
        _administrators(),
    ]
    return SystemHealth(sorted(parts, key=lambda part: ORDER.index(part.state)))


def _database(alias: str, answered_ms: float, *, title: str, risk: str, name: str = "") -> Component:
    behind = readiness.missing((alias,))
    troubles: list[str] = [phrase("The tables don't match this version: %(why)s.", why=why) for why in behind.values()]
    if answered_ms > SLOW_MS:
        troubles.append(phrase("A minimal query takes %(time)s.", time=f"{answered_ms:.0f} ms"))
    facts = (
        (KIND, KINDS.get(connections[alias].vendor, phrase("other"))),
        (phrase("Response time"), _milliseconds(answered_ms)),
        (phrase("Schema"), phrase("up to date") if not behind else phrase("migration required")),
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
        risk=(
            "All pages and APIs answer with 503: this database holds users, networks, volumes and images. "
            "Servers keep running."
        ),
    )


def _cell_database(cell: CellHealth) -> Component:
    down = Component(
        id=f"database-{cell.name}",
        title="Database",
        state=DOWN,
        risk=(
            "Lists are marked as incomplete. Servers of the cell are UNKNOWN and can't be changed, but keep "
            "running. New servers go to other cells."
        ),
        troubles=(phrase("No response: %(why)s.", why=cell.failure),),
        name=cell.name,
    )
    if not cell.is_up:
        return down
    return _database(cell.name, cell.answered_ms, title=down.title, risk=down.risk, name=cell.name)


def _reached(ident: str, url: str, *, title: str, risk: str, without: str) -> Component:
    """Check whether a service at a URL accepts connections; `without` is the fallback where no URL is configured."""
    if not url:
        return Component(ident, title, OFF, risk, ((phrase("Fallback"), without),))
    found: list[tuple[str, str]] = []
    troubles: list[str] = []
    for host, port in _addresses(url):
        begun = time.perf_counter()
        try:
            with socket.create_connection((host, port), timeout=REACH_SECONDS):
                taken_ms = (time.perf_counter() - begun) * 1000
                found.append(
                    (f"{host}:{port}", phrase("accepts connections within %(time)s", time=f"{taken_ms:.0f} ms"))
                )
        except OSError as error:
            found.append((f"{host}:{port}", phrase("doesn't respond")))
            why = error.strerror or phrase("no response in time")
            troubles.append(phrase("%(place)s doesn't respond: %(why)s.", place=f"{host}:{port}", why=why))
    state = UP if not troubles else DOWN if len(troubles) == len(found) else LOOK
    return Component(ident, title, state, risk, ((KIND, urlsplit(url).scheme), *found), tuple(troubles))


def _addresses(url: str) -> list[tuple[str, int]]:
    """Return the addresses of the service; several, where the URL of a group service names them."""
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
        risk="Work starts later. Nothing is lost: conductors poll for it within seconds.",
        without=phrase("in-process memory"),
    )


def _channels() -> Component:
    return _reached(
        "channels",
        settings.NOVELLA_CHANNEL_URL,
        title="Channel layer",
        risk="Pages show changes later, within five seconds.",
        without=phrase("polling of the event log three times a second"),
    )


def _membership() -> Component:
    return _reached(
        "membership",
        settings.NOVELLA_MEMBERSHIP_URL,
        title="Group service",
        risk="A failed conductor is detected later, when its lease expires.",
        without=phrase("leases only"),
    )


def _ovn() -> Component:
    """Networks on OVN: the conductor that writes them, northd, and the hosts."""
    off = Component(
        id="ovn",
        title="Networks on OVN",
        state=OFF,
        risk="Traffic of servers continues. Changes of networks take effect later.",
        facts=((phrase("Fallback"), phrase("the networks of each host's driver")),),
    )
    if not ovn_state.is_configured():
        return off
    found = ovn_state.read(seconds=REACH_SECONDS)
    age = found.pass_age_seconds
    passed = phrase("none yet") if age is None else phrase("%(time)s ago", time=f"{age:.0f} s")
    facts = [(phrase("Last comparison"), passed)]
    down, look = [], []
    if age is None or age > LATE_SECONDS:
        down.append(phrase("No conductor writes networks into OVN."))
    if found.health is None:
        down.append(phrase("A database doesn't respond: %(why)s.", why=found.failure))
    else:
        late, hosts = found.health.late_hosts, len(found.health.hosts)
        facts.append((phrase("Hosts"), phrase("%(up)s of %(count)s up", up=hosts - len(late), count=hosts)))
        if found.health.is_northd_late and (age or 0) > NORTHD_SECONDS:
            down.append(phrase("northd hasn't carried out the last change."))
        look += [phrase("%(name)s hasn't carried out the last changes.", name=name) for name in late]
    state = DOWN if down else LOOK if look else UP
    return replace(off, state=state, facts=tuple(facts), troubles=(*down, *look))


def _conductors(health: Health) -> Component:
    troubles = [
        phrase("%(cell)s has no running conductor.", cell=cell.name)
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
        risk="Accepted requests wait: servers stay in BUILD or keep their task state until a conductor is running.",
        facts=facts,
        troubles=tuple(troubles),
    )


def _schedulers(health: Health) -> Component:
    """Schedulers that are services of their own: their queues, and the time that each takes for a decision."""
    is_used = settings.NOVELLA_SCHEDULER == "service"
    is_known = any(cell.name == CELL0 and cell.is_up for cell in health.cells)
    known = schedulers.all_known() if is_known else []
    alive = [one for one in known if one.is_alive]
    off = Component(
        id="schedulers",
        title="Schedulers",
        state=OFF,
        risk="Requests that need a host wait, and fail after a while. Servers keep running.",
        facts=((phrase("Fallback"), phrase("the conductors")),),
    )
    if not is_used and not alive:
        return off
    troubles = tuple(filter(None, map(_trouble_of_scheduler, known)))
    if is_used and is_known and not alive:
        troubles = (*troubles, phrase("None is running."))
    return replace(
        off,
        state=DOWN if is_used and not alive else LOOK if troubles else UP,
        facts=tuple((one.name, _speed(one)) for one in known),
        troubles=troubles,
    )


def _trouble_of_scheduler(one: Scheduler) -> str:
    if not one.is_alive:
        return phrase("%(name)s isn't running. Start it, or remove its service.", name=one.name)
    if not one.is_slow:
        return ""
    oldest = phrase("%(seconds)s s", seconds=round(one.oldest_seconds, 1))
    return phrase("%(name)s is slow: its oldest request waits for %(time)s.", name=one.name, time=oldest)


def _speed(one: Scheduler) -> str:
    if not one.decisions:
        return phrase("%(count)s waiting, no decision yet", count=one.waiting)
    took = _milliseconds(one.seconds / one.decisions * 1000)
    return phrase(
        "%(count)s waiting, %(time)s per decision (%(decisions)s)",
        count=one.waiting,
        time=took,
        decisions=one.decisions,
    )


def _computes(health: Health) -> Component:
    total, up = (sum(getattr(one, name) for one in health.cells) for name in ("computes", "computes_up"))
    troubles = (_down(total - up, total),) if up < total else ()
    facts = tuple((one.name, _computes_of(one)) for one in health.cells if one.computes)
    state = DOWN if total and not up else LOOK if troubles or not total else UP
    return Component(
        id="computes",
        title="Compute hosts",
        state=state,
        risk="Servers on a host that is down may keep running, but can't be managed. New servers go elsewhere.",
        facts=facts,
        troubles=troubles or (() if total else (phrase("None is running."),)),
    )


def _down(down: int, total: int) -> Phrase:
    return phrases("%(down)s of %(total)s is down.", "%(down)s of %(total)s are down.", down, down=down, total=total)


def _computes_of(cell: CellHealth) -> str:
    if not cell.computes_closed:
        return phrase("%(up)s of %(count)s up", up=cell.computes_up, count=cell.computes)
    return phrase(
        "%(up)s of %(count)s up, %(closed)s disabled",
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
            troubles.append(phrase("%(name)s: work has been queued for %(time)s seconds.", name=name, time=waited))
        if backlog.overdue:
            troubles.append(
                phrases(
                    "%(name)s: %(count)s host command has been unanswered for over a minute.",
                    "%(name)s: %(count)s host commands have been unanswered for over a minute.",
                    backlog.overdue,
                    name=name,
                )
            )
        if backlog.stuck:
            troubles.append(
                phrases(
                    "%(name)s: %(count)s workflow needs an operator.",
                    "%(name)s: %(count)s workflows need an operator.",
                    backlog.stuck,
                    name=name,
                )
            )
    return Component(
        id="queue",
        title="Queued work",
        state=LOOK if troubles else UP,
        risk="User requests take longer. No accepted request is lost.",
        facts=tuple(facts),
        troubles=tuple(troubles),
    )


def _work(backlog: Backlog) -> str:
    return phrase(
        "%(running)s running, %(queued)s queued, %(unanswered)s unanswered",
        running=backlog.running,
        queued=backlog.queued,
        unanswered=backlog.unanswered,
    )


def _event_log(alias: str) -> _Log:
    rows = Event.objects.using(alias).aggregate(last=Max("pk"), newest=Max("created_at"))
    places = list(NotificationPlace.objects.using(alias).values_list("sink", "reached", "last_error"))
    last, newest = rows["last"], rows["newest"]
    age = None if newest is None else max(0.0, (database_time(alias) - newest).total_seconds())
    behind = {_sink(sink): max(0, (last or 0) - reached) for sink, reached, _ in places}
    return _Log(age, behind, tuple(_sink(sink) for sink, _, error in places if error))


def _sink(name: str) -> str:
    """Return a sink's name without path and query of its address, which may hold a token."""
    kind, sign, address = name.partition("://")
    return f"{kind}://{address.rpartition('@')[2].split('/')[0].split('?')[0]}" if sign else name


def _events(logs: dict[str, _Log]) -> Component:
    facts: list[tuple[str, str]] = []
    troubles: list[str] = []
    for alias, found in logs.items():
        title = API_LEVEL if alias == API_ALIAS else alias
        newest = phrase("none yet")
        if found.newest_seconds is not None:
            newest = phrase("newest: %(time)s ago", time=f"{found.newest_seconds:.0f} s")
        facts.append((title, newest))
        for sink, behind in found.behind.items():
            if behind > BEHIND_EVENTS:
                troubles.append(
                    phrase("%(sink)s is %(behind)s events behind in %(log)s.", sink=sink, behind=behind, log=title)
                )
        failing = [
            phrase("%(sink)s: notifications failed in %(log)s. See its log.", sink=sink, log=title)
            for sink in found.failing
        ]
        troubles += failing
    most = max((behind for found in logs.values() for behind in found.behind.values()), default=None)
    behind_most = phrases("%(count)s event", "%(count)s events", most) if most is not None else phrase("no recipients")
    facts.append((phrase("Maximum lag"), behind_most))
    return Component(
        id="events",
        title="Event log",
        state=LOOK if troubles else UP,
        risk="Notifications and webhooks are delayed. Each is delivered once and in order.",
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
        risk="When the disk is full, writes fail: requests are answered with 503 and servers may pause.",
        facts=facts,
        troubles=troubles,
    )


def _gigabytes(free: int, total: int) -> dict[str, Any]:
    share = free / total if total else 0.0
    return {"free": round(free / GB, 1), "all": round(total / GB, 1), "share": f"{share:.0%}"}


def _milliseconds(amount: float) -> str:
    return phrase("%(milliseconds)s ms", milliseconds=round(amount, 1))


def _plugins() -> Component:
    remarks: dict[str, Any] = readiness.remarks().get("remarks", {})
    troubles = tuple(f"{name.capitalize()}: {words}." for name, words in remarks.items())
    facts = tuple((name.capitalize(), words) for name, words in remarks.items()) or (
        (phrase("In quarantine"), phrase("none")),
    )
    return Component(
        id="plugins",
        title="Plugins",
        state=LOOK if troubles else UP,
        risk="Decisions continue without a quarantined plugin, as configured.",
        facts=facts,
        troubles=troubles,
    )


def _administrators() -> Component:
    is_any = effective.is_any_project_for_admins()
    trouble = phrase(
        "NOVELLA_ADMIN_PROJECT is any: the role admin in any project administers the whole cloud. "
        "Grant it only to administrators of the cloud."
    )
    project = settings.NOVELLA_ADMIN_PROJECT
    shown = phrase("any") if is_any else project or phrase("none: only tokens for the system")
    return Component(
        id="administrators",
        title="Administrators of the cloud",
        state=LOOK if is_any else UP,
        risk="An administrator of the cloud reads and changes the resources of every project.",
        facts=((phrase("Admin project"), shown),),
        troubles=(trouble,) if is_any else (),
    )
