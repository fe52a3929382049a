"""Process of a conductor: a worker on the queues that it serves, and the periodic work for their journals."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.module_loading import import_string

from conductor.actors import conductor as conductor_actors
from conductor.actors import liveness, periodic
from conductor.actors.report_intake import INTAKE
from conductor.cells.lookup import API_ALIAS, CELL0, cell_aliases, journal_aliases, queue_of
from conductor.core import garbage
from conductor.rpc import broker
from conductor.services.operations import refused_messages
from conductor.services.plugins import workflow_observers
from conductor.workflows.engine import recovery

log = logging.getLogger(__name__)

THREADS = 8
PREFETCH = 2 * THREADS  # so that no thread waits for the next messages
STOP_MILLISECONDS = 10_000
DRAIN_SECONDS = 2.0


def conductor_name() -> str:
    """Return the default name of a conductor, which is its machine's."""
    return socket.gethostname().split(".")[0].lower()


@dataclass(frozen=True)
class ServedQueues:
    """The queues that a conductor serves: whole queues, so that all journals of one queue are swept together."""

    queues: frozenset[str]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The journals that send notifications to these queues."""
        return tuple(alias for alias in journal_aliases() if queue_of(alias) in self.queues)

    def __str__(self) -> str:
        return ", ".join(sorted(self.queues))


def charge(*, cells: Sequence[str], is_api_level: bool) -> ServedQueues:
    """Return the API level and all cells, or the named ones. Raises CommandError for an unknown cell."""
    known = cell_aliases(with_cell0=False)
    for name in cells:
        if name not in known:
            raise CommandError(f"--cell: there is no cell {name}. Known cells: {', '.join(known) or 'none'}.")
    if not cells and not is_api_level:
        return ServedQueues(frozenset(queue_of(alias) for alias in journal_aliases()))
    return ServedQueues(frozenset(queue_of(alias) for alias in [*cells, *([CELL0] if is_api_level else [])]))


def keep_to_core(core: int) -> None:
    """Pin this process to one core; call it before threads are started, which inherit it.

    The threads take turns with the interpreter lock, and passing it between cores costs more than the work of a step.
    Raises CommandError for a core that the process may not use.
    """
    usable = os.sched_getaffinity(0)
    if core not in usable:
        known = ", ".join(map(str, sorted(usable)))
        raise CommandError(f"--core: {core} is not a core that this process may use. Choose one of {known}.")
    os.sched_setaffinity(0, {core})


class ConductorProcess:
    """Parts of a conductor, started bottom-up and stopped top-down. It never takes over what a lease protects."""

    def __init__(self, charge: ServedQueues, name: str) -> None:
        self._aliases = charge.aliases
        self._name = name
        self._worker = broker.make_worker(charge.queues, threads=THREADS, prefetch=PREFETCH)
        self._tickers = periodic.conductor_tickers(charge.aliases, name)
        self._group = liveness.ConductorGroup(charge.aliases, name)

    def start(self) -> None:
        assert conductor_actors is not None, "importing them registers their actors"
        if settings.NOVELLA_CHANNEL_URL:
            import_string(settings.NOVELLA_LIVE_PUBLISHER)()
        workflow_observers.listen()
        refused_messages.listen()
        self._group.join()
        INTAKE.start()
        self._worker.start()
        periodic.report_all(self._aliases, self._name)
        periodic.sweep_all(self._aliases, grace_seconds=0.0)
        for ticker in self._tickers:
            ticker.start()
        garbage.settle()

    def serve(self, stop: threading.Event) -> None:
        stop.wait()

    def stop(self) -> None:
        """Stop: start nothing new, end what is under way, and hand on what does not end in time."""
        self._worker.stop(timeout=STOP_MILLISECONDS)
        INTAKE.stop()
        for ticker in self._tickers:  # until here they renewed our leases
            ticker.stop()
        hand_on(self._aliases)
        self._group.leave()
        if not broker.drain(DRAIN_SECONDS):
            log.warning("some notifications were not sent in time; the sweep of another conductor sends them again")


def hand_on(aliases: Iterable[str]) -> None:
    """End this process's own leases, so that others need not wait for them; failures are logged."""
    for alias in dict.fromkeys((*aliases, API_ALIAS)):  # leases of work for the whole cloud are in the API database
        try:
            recovery.hand_on(alias)
        except Exception:
            log.exception("leases not handed on: they run out by themselves: alias=%s", alias)
