"""Work that comes round: heartbeats of leases and the sweep, on one ticker thread each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from django.db import close_old_connections

from conductor.cells.lookup import journal_aliases
from conductor.image import operations as images
from conductor.workflows import leases, recovery

log = logging.getLogger(__name__)


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
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._work()
            except Exception:
                log.exception("periodic work failed: %s", self._thread.name)
            finally:
                close_old_connections()


def sweep_all() -> None:
    """Sweep every journal; one that does not answer does not keep the others waiting for the next pass."""
    for alias in journal_aliases():
        try:
            recovery.sweep(alias, grace_seconds=settings.NOVELLA_SWEEP_SECONDS)
        except Exception:
            log.exception("sweep failed: alias=%s", alias)


def settle_uploads() -> None:
    """Images whose uploader died go back to waiting for their data."""
    settled = images.settle_broken_uploads()
    if settled:
        log.warning("broken uploads settled: images=%s", settled)


def tickers() -> list[Ticker]:
    """The periodic work of a process that runs a conductor."""
    return [
        Ticker("lease-heartbeat", settings.NOVELLA_LEASE_SECONDS / 3, leases.renew_all),
        Ticker("sweep", settings.NOVELLA_SWEEP_SECONDS, sweep_all),
        Ticker("broken-uploads", settings.NOVELLA_SWEEP_SECONDS, settle_uploads),
    ]
