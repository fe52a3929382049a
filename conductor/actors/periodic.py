"""Periodic work: heartbeats, sweeps and more, each on a ticker thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

from django.conf import settings
from django.db import close_old_connections

from conductor.actors.error_logging import ErrorLogger
from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.image import operations as images
from conductor.journal import periodic_leases
from conductor.scheduler.plugin_health import plugin_watch
from conductor.services.audit import seals
from conductor.services.billing import budgets
from conductor.services.cells import health
from conductor.services.fleet import canaries, drains, unresponsive_hosts
from conductor.services.networks import ovn_state
from conductor.services.notifications import dispatcher, sinks, subscribers
from conductor.services.operations import refused_messages, storage_cleanup
from conductor.services.operations.pruning import pruner
from conductor.services.operations.reconciliation import reconciler, undos
from conductor.services.server_migrations import live_migrations, resizes
from conductor.services.servers import deletions, due_snapshots
from conductor.workflows.engine import leases, recovery

log = logging.getLogger(__name__)

UPKEEP_SECONDS = 15.0
# How often a conductor checks whether periodic work of one process for all is due.
PERIODIC_WORK_SECONDS = 5.0

SEAL_EVERY_SECONDS = 3.0
GIVEN_UP_EVERY_SECONDS = 0.1
RECLAIM_EVERY_SECONDS = 10.0
UNDOS_EVERY_SECONDS = 2.0
NOTIFY_EVERY_SECONDS = 1.0


_complaints = ErrorLogger()


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
    """Sweep these journals; one that is down does not delay the others."""
    grace = settings.NOVELLA_SWEEP_SECONDS if grace_seconds is None else grace_seconds
    for alias in aliases:
        with _complaints.about(f"sweep of {alias}"):
            recovery.sweep(alias, grace_seconds=grace)


def report_all(aliases: Iterable[str], name: str) -> None:
    """Record heartbeats of the conductor `name` in each of these cells; for the API's journal in cell0."""
    for alias in aliases:
        if alias == API_ALIAS:  # has no services of its own: its conductors also serve cell0
            continue
        with _complaints.about(f"heartbeat in {alias}"):
            health.record(alias, name)


def _in_cells(aliases: Iterable[str], what: str, *works: Callable[[str], object]) -> None:
    """Do the works in each of these cells that has hosts; in a quarantined one nothing may start."""
    for alias in aliases:
        if alias in (API_ALIAS, CELL0) or quarantine.holds(alias):
            continue
        with _complaints.about(f"{what} in {alias}"):
            for work in works:
                work(alias)


def finish_undos_all(aliases: Iterable[str]) -> None:
    """Resume rollbacks in these cells that waited for hosts which have done their part by now."""
    _in_cells(aliases, "undos", undos.go_on_all)


def reclaim_all(aliases: Iterable[str]) -> None:
    """Delete instances whose reclaim time is over in each of these cells."""
    _in_cells(aliases, "reclaim", deletions.reclaim)


def move_on_all(aliases: Iterable[str]) -> None:
    """Confirm overdue moves, abort unwanted ones, and advance drains and canaries, in these cells."""
    _in_cells(
        aliases, "moves", resizes.confirm_overdue, drains.advance, canaries.advance, live_migrations.stop_unwanted
    )


def report_unresponsive_hosts(aliases: Iterable[str]) -> None:
    """Report hosts that became unresponsive in these cells, so that pages reload."""
    for alias in aliases:
        if alias not in (API_ALIAS, CELL0):  # no host is there
            with _complaints.about(f"unresponsive hosts of {alias}"):
                unresponsive_hosts.report(alias)


def run_periodic_work(aliases: Iterable[str], owner: str) -> None:
    """Do due work that one process does for all: the first one when it is due."""
    report_unresponsive_hosts(aliases)
    with _complaints.about("reconciliation"):
        reconciler.carry_out(owner)
    with _complaints.about("pruning"):
        pruner.carry_out(aliases, owner)
    with _complaints.about("budgets"):
        budgets.carry_out(owner)
    with _complaints.about("refused messages"):  # this process's own
        refused_messages.flush()
    with _complaints.about("scheduled snapshots"):
        due_snapshots.carry_out(owner)
    with _complaints.about("what plugins did"):  # this process's own, also without further decisions
        plugin_watch.flush_if_due()


def seal_all(aliases: Iterable[str], owner: str) -> None:
    """Seal new records in the audit logs of these databases, and check the logs periodically."""
    for alias in aliases:
        with _complaints.about(f"seals of the audit log in {alias}"):
            seals.carry_out(alias, owner)


def go_on_with_given_up() -> None:
    """Continue runs that were given up; no query while there are none."""
    freed = recovery.go_on_with_given_up()
    if freed:
        log.warning("the database answers again, runs go on: runs=%s", freed)


def renew_leases() -> None:
    """Renew the leases of this process: its runs, and the periodic work that it does for all."""
    leases.renew_all()
    periodic_leases.renew_all()


def settle_uploads() -> None:
    """Reset images whose upload died to waiting for their data."""
    settled = images.settle_broken_uploads()
    if settled:
        log.warning("broken uploads settled: images=%s", settled)


def conductor_tickers(aliases: Iterable[str], name: str) -> list[Ticker]:
    """Return the periodic work of a conductor that serves these journals."""
    ours = tuple(aliases)
    return [
        Ticker("lease-heartbeat", settings.NOVELLA_LEASE_SECONDS / 3, renew_leases),
        Ticker("service-heartbeat", settings.NOVELLA_HEARTBEAT_SECONDS, partial(report_all, ours, name)),
        Ticker("sweep", settings.NOVELLA_SWEEP_SECONDS, partial(sweep_all, ours)),
        Ticker("given-up", GIVEN_UP_EVERY_SECONDS, go_on_with_given_up),
        Ticker("storage-upkeep", UPKEEP_SECONDS, storage_cleanup.tend),
        Ticker("undos", UNDOS_EVERY_SECONDS, partial(finish_undos_all, ours)),
        Ticker("moves", settings.NOVELLA_SWEEP_SECONDS, partial(move_on_all, ours)),
        Ticker("reclaim", RECLAIM_EVERY_SECONDS, partial(reclaim_all, ours)),
        Ticker("audit-seals", SEAL_EVERY_SECONDS, partial(seal_all, ours, leases.WORKER)),
        Ticker("periodic-work", PERIODIC_WORK_SECONDS, partial(run_periodic_work, ours, leases.WORKER)),
        *notification_tickers(ours, name),
        *ovn_tickers(leases.WORKER),
    ]


def ovn_tickers(owner: str) -> list[Ticker]:
    """Return a ticker that writes networks into OVN, where OVN is configured."""
    if not ovn_state.is_configured():  # its client libraries are not loaded then
        return []
    from conductor.services.networks.ovn_projection import CHECK_SECONDS, OvnProjection

    return [Ticker("ovn-projection", CHECK_SECONDS, OvnProjection(owner).carry_out)]


def _worker_name(name: str) -> str:
    return f"{name} {leases.WORKER}"[:64]


def notification_tickers(aliases: tuple[str, ...], name: str) -> list[Ticker]:
    """Return a ticker for each sink, so that one that hangs delays no other, and one for all subscribers."""
    teller = _worker_name(name)
    lines = [
        Ticker(f"notify {sink.name}", NOTIFY_EVERY_SECONDS, partial(dispatcher.dispatch_all, aliases, sink, teller))
        for sink in sinks.configured()
    ]
    passes = subscribers.on_threads(aliases, teller)
    return [*lines, Ticker("notify subscribers", NOTIFY_EVERY_SECONDS, passes.go_round)]


def web_tickers() -> list[Ticker]:
    """Return the periodic work of a process with uploads: only it sees the files of a dead predecessor."""
    return [Ticker("broken-uploads", settings.NOVELLA_SWEEP_SECONDS, settle_uploads)]
