"""Work that comes round: heartbeats and sweeps, on one ticker thread each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

from django.conf import settings
from django.db import close_old_connections

from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.image import operations as images
from conductor.services import conductors, deletions, drains, moves, storage_upkeep
from conductor.services.notifications import dispatcher, sinks
from conductor.workflows import leases, recovery

log = logging.getLogger(__name__)

UPKEEP_SECONDS = 15.0

RECLAIM_EVERY_SECONDS = 10.0
NOTIFY_EVERY_SECONDS = 1.0
FORGET_EVERY_SECONDS = 3600.0


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
            try:
                self._work()
            except Exception:
                log.exception("periodic work failed: %s", self._thread.name)
            finally:
                close_old_connections()


def sweep_all(aliases: Iterable[str], *, grace_seconds: float | None = None) -> None:
    """Sweep these journals; one that does not answer does not keep the others waiting for the next pass."""
    grace = settings.NOVELLA_SWEEP_SECONDS if grace_seconds is None else grace_seconds
    for alias in aliases:
        try:
            recovery.sweep(alias, grace_seconds=grace)
        except Exception:
            log.exception("sweep failed: alias=%s", alias)


def report_all(aliases: Iterable[str], name: str) -> None:
    """Say in each of these cells that the conductor `name` looks after it; in cell0 for the API's journal too."""
    for alias in aliases:
        if alias == API_ALIAS:  # has no services of its own: whoever works there works on cell0 as well
            continue
        try:
            conductors.record(alias, name)
        except Exception:
            log.exception("heartbeat failed: alias=%s", alias)


def reclaim_all(aliases: Iterable[str]) -> None:
    """Delete for good what was deleted long enough ago in each of these cells."""
    for alias in aliases:
        if alias in (API_ALIAS, CELL0):  # nothing there ever ran
            continue
        try:
            deletions.reclaim(alias)
        except Exception:
            log.exception("reclaim failed: alias=%s", alias)


def move_on_all(aliases: Iterable[str]) -> None:
    """Confirm moves that have waited long enough, and go on emptying hosts, in each of these cells."""
    for alias in aliases:
        if alias in (API_ALIAS, CELL0):  # no host is there
            continue
        try:
            moves.confirm_overdue(alias)
            drains.advance(alias)
        except Exception:
            log.exception("moves do not go on: alias=%s", alias)


def settle_uploads() -> None:
    """Images whose uploader died go back to waiting for their data."""
    settled = images.settle_broken_uploads()
    if settled:
        log.warning("broken uploads settled: images=%s", settled)


def conductor_tickers(aliases: Iterable[str], name: str) -> list[Ticker]:
    """The periodic work of a conductor that looks after these journals."""
    ours = tuple(aliases)
    return [
        Ticker("lease-heartbeat", settings.NOVELLA_LEASE_SECONDS / 3, leases.renew_all),
        Ticker("service-heartbeat", settings.NOVELLA_HEARTBEAT_SECONDS, partial(report_all, ours, name)),
        Ticker("sweep", settings.NOVELLA_SWEEP_SECONDS, partial(sweep_all, ours)),
        Ticker("storage-upkeep", UPKEEP_SECONDS, storage_upkeep.tend),
        Ticker("moves", settings.NOVELLA_SWEEP_SECONDS, partial(move_on_all, ours)),
        Ticker("reclaim", RECLAIM_EVERY_SECONDS, partial(reclaim_all, ours)),
        *notification_tickers(ours, name),
    ]


def notification_tickers(aliases: tuple[str, ...], name: str) -> list[Ticker]:
    """One for each sink, so that one that hangs holds up no other."""
    told = sinks.configured()
    if not told:
        return []
    teller = f"{name} {leases.WORKER}"[:64]
    tellers = [
        Ticker(f"notify {sink.name}", NOTIFY_EVERY_SECONDS, partial(dispatcher.tell_all, aliases, sink, teller))
        for sink in told
    ]
    forget = partial(dispatcher.forget_old_deliveries, aliases)
    return [*tellers, Ticker("forget-deliveries", FORGET_EVERY_SECONDS, forget)]


def web_tickers() -> list[Ticker]:
    """The periodic work of a process that takes uploads: it alone sees the files that a dead one left."""
    return [Ticker("broken-uploads", settings.NOVELLA_SWEEP_SECONDS, settle_uploads)]
