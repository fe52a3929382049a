"""Work that comes round: heartbeats and sweeps, on one ticker thread each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections

from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.image import operations as images
from conductor.journal import periodic_leases
from conductor.scheduler.plugin_watch import plugin_watch
from conductor.services import (
    audit_seals,
    budgets,
    canaries,
    conductors,
    deletions,
    drains,
    live_migrations,
    moves,
    refused_messages,
    silent_hosts,
    snapshot_rounds,
    storage_upkeep,
)
from conductor.services.notifications import dispatcher, sinks, subscribers
from conductor.services.pruning import pruner
from conductor.services.reconciliation import duty as reconciliation
from conductor.workflows import leases, recovery

log = logging.getLogger(__name__)

UPKEEP_SECONDS = 15.0
# How often a conductor asks whether periodic work that one process does for all is due.
DUTY_EVERY_SECONDS = 5.0

SEAL_EVERY_SECONDS = 3.0
GIVEN_UP_EVERY_SECONDS = 0.1
RECLAIM_EVERY_SECONDS = 10.0
NOTIFY_EVERY_SECONDS = 1.0


class Complaints:
    """Says once that something fails for want of its database, and once that it works again; all else, each time."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Errors inside are logged, never raised."""
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            if what not in self._failing:
                self._failing.add(what)
                log.error("%s: the database does not answer, tried again each time: %s", what, _first_line(error))
        except Exception:
            log.exception("failed: %s", what)
        else:
            if what in self._failing:
                self._failing.discard(what)
                log.warning("%s: the database answers again", what)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_complaints = Complaints()


class Ticker:
    """Calls a function every `seconds` on a thread of its own until it is stopped; errors are logged, never fatal."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with _complaints.about(self._thread.name):
                self._work()
            close_old_connections()


def sweep_all(aliases: Iterable[str], *, grace_seconds: float | None = None) -> None:
    """Sweep these journals; one that does not answer does not keep the others waiting for the next pass."""
    grace = settings.NOVELLA_SWEEP_SECONDS if grace_seconds is None else grace_seconds
    for alias in aliases:
        with _complaints.about(f"sweep of {alias}"):
            recovery.sweep(alias, grace_seconds=grace)


def report_all(aliases: Iterable[str], name: str) -> None:
    """Say in each of these cells that the conductor `name` looks after it; in cell0 for the API's journal too."""
    for alias in aliases:
        if alias == API_ALIAS:  # has no services of its own: whoever works there works on cell0 as well
            continue
        with _complaints.about(f"heartbeat in {alias}"):
            conductors.record(alias, name)


def reclaim_all(aliases: Iterable[str]) -> None:
    """Delete for good what was deleted long enough ago in each of these cells."""
    for alias in aliases:
        if alias in (API_ALIAS, CELL0) or quarantine.holds(alias):  # nothing there ever ran, or nothing is to begin
            continue
        with _complaints.about(f"reclaim in {alias}"):
            deletions.reclaim(alias)


def move_on_all(aliases: Iterable[str]) -> None:
    """Confirm moves that waited long enough, stop unwanted ones, go on with drains and canaries, in these cells."""
    for alias in aliases:
        if alias in (API_ALIAS, CELL0) or quarantine.holds(alias):  # no host is there, or nothing is to begin
            continue
        with _complaints.about(f"moves in {alias}"):
            moves.confirm_overdue(alias)
            drains.advance(alias)
            canaries.advance(alias)
            live_migrations.stop_unwanted(alias)


def tell_of_silent_hosts(aliases: Iterable[str]) -> None:
    """Have pages look again at hosts that fell silent in these cells."""
    for alias in aliases:
        if alias not in (API_ALIAS, CELL0):  # no host is there
            with _complaints.about(f"silent hosts of {alias}"):
                silent_hosts.tell(alias)


def do_duties(aliases: Iterable[str], owner: str) -> None:
    """What one process does for all: whoever asks first when it is due."""
    tell_of_silent_hosts(aliases)
    with _complaints.about("reconciliation"):
        reconciliation.carry_out(owner)
    with _complaints.about("pruning"):
        pruner.carry_out(aliases, owner)
    with _complaints.about("budgets"):
        budgets.carry_out(owner)
    with _complaints.about("refused messages"):  # this process's own
        refused_messages.flush()
    with _complaints.about("scheduled snapshots"):
        snapshot_rounds.carry_out(owner)
    with _complaints.about("what plugins did"):  # this process's own, also when nothing is decided any more
        plugin_watch.flush_if_due()


def seal_all(aliases: Iterable[str], owner: str) -> None:
    """Seal what is new in the audit logs of these databases, and check them now and then."""
    for alias in aliases:
        with _complaints.about(f"seals of the audit log in {alias}"):
            audit_seals.carry_out(alias, owner)


def go_on_with_given_up() -> None:
    """Asks no database while nothing was given up."""
    freed = recovery.go_on_with_given_up()
    if freed:
        log.warning("the database answers again, runs go on: runs=%s", freed)


def renew_leases() -> None:
    """Keep what this process works on: its runs, and the periodic work that it does for all."""
    leases.renew_all()
    periodic_leases.renew_all()


def settle_uploads() -> None:
    """Images whose uploader died go back to waiting for their data."""
    settled = images.settle_broken_uploads()
    if settled:
        log.warning("broken uploads settled: images=%s", settled)


def conductor_tickers(aliases: Iterable[str], name: str) -> list[Ticker]:
    """The periodic work of a conductor that looks after these journals."""
    ours = tuple(aliases)
    return [
        Ticker("lease-heartbeat", settings.NOVELLA_LEASE_SECONDS / 3, renew_leases),
        Ticker("service-heartbeat", settings.NOVELLA_HEARTBEAT_SECONDS, partial(report_all, ours, name)),
        Ticker("sweep", settings.NOVELLA_SWEEP_SECONDS, partial(sweep_all, ours)),
        Ticker("given-up", GIVEN_UP_EVERY_SECONDS, go_on_with_given_up),
        Ticker("storage-upkeep", UPKEEP_SECONDS, storage_upkeep.tend),
        Ticker("moves", settings.NOVELLA_SWEEP_SECONDS, partial(move_on_all, ours)),
        Ticker("reclaim", RECLAIM_EVERY_SECONDS, partial(reclaim_all, ours)),
        Ticker("audit-seals", SEAL_EVERY_SECONDS, partial(seal_all, ours, leases.WORKER)),
        Ticker("duties", DUTY_EVERY_SECONDS, partial(do_duties, ours, leases.WORKER)),
        *notification_tickers(ours, name),
    ]


def _worker_name(name: str) -> str:
    return f"{name} {leases.WORKER}"[:64]


def notification_tickers(aliases: tuple[str, ...], name: str) -> list[Ticker]:
    """One for each sink, so that one that hangs holds up no other, and one for all subscribers."""
    teller = _worker_name(name)
    told = [
        Ticker(f"notify {sink.name}", NOTIFY_EVERY_SECONDS, partial(dispatcher.tell_all, aliases, sink, teller))
        for sink in sinks.configured()
    ]
    passes = subscribers.on_threads(aliases, teller)
    return [*told, Ticker("notify subscribers", NOTIFY_EVERY_SECONDS, passes.go_round)]


def web_tickers() -> list[Ticker]:
    """The periodic work of a process that takes uploads: it alone sees the files that a dead one left."""
    return [Ticker("broken-uploads", settings.NOVELLA_SWEEP_SECONDS, settle_uploads)]
