"""The whole cloud in one process: dramatiq workers, agents, periodic work, and the web server in the main thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from django.conf import settings
from django.db import connections

from conductor import plugins
from conductor.actors import compute as compute_actors
from conductor.actors import conductor as conductor_actors
from conductor.actors import liveness, periodic
from conductor.actors.report_intake import INTAKE
from conductor.cell_db.models import Service
from conductor.cells.lookup import journal_aliases, queue_of
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.image import store
from conductor.management import web_server
from conductor.management.compute_process import console_place
from conductor.management.conductor_process import conductor_name, hand_on
from conductor.rpc import broker, identities, keys
from conductor.rpc.envelope import SigningKey
from conductor.rpc.identities import Credentials, HostIdentity, IdentityUnusable
from conductor.rpc.key_store import STORE
from conductor.services.hosts import keys as host_keys
from conductor.services.operations import refused_messages
from conductor.services.plugins import workflow_observers
from conductor.workflows.engine import recovery

log = logging.getLogger(__name__)

WORKER_THREADS = 8  # the agents only receive commands on them, and execute these on threads of their own
FIRST_REPORTS_SECONDS = 15.0
WORKER_STOP_MILLISECONDS = 10_000


class Embedded:
    """Parts of the embedded default, started bottom-up and stopped top-down."""

    def __init__(self, hosts: tuple[HostConfig, ...]) -> None:
        self._hosts = hosts
        enroll_all(hosts)
        refused_messages.listen()
        self._agent = ComputeAgent(
            hosts,
            plugins.registry().drivers,
            store.open_image,
            settings.NOVELLA_HEARTBEAT_SECONDS,
            store_image=store.store_image,
        )
        self._agent.report_together(INTAKE.put_own)
        self._agent.relay_consoles(console_place())
        self._aliases = journal_aliases()
        queues = {*(queue_of(alias) for alias in self._aliases), *(broker.compute_queue(host.host) for host in hosts)}
        self._worker = broker.make_worker(queues, threads=WORKER_THREADS, prefetch=2 * WORKER_THREADS)
        self._tickers = [*periodic.conductor_tickers(self._aliases, conductor_name()), *periodic.web_tickers()]
        self._group = liveness.ConductorGroup(self._aliases, conductor_name())

    def start(self) -> None:
        """Start all but the web server; returns when every host that can report has done so."""
        assert conductor_actors is not None, "importing them registers their actors"
        workflow_observers.listen()
        self._group.join()
        self._worker.start()
        INTAKE.start()
        compute_actors.serve(self._agent)
        self._agent.start()
        self._await_first_reports()
        for alias in self._aliases:
            if is_alone(alias):
                recovery.take_over_everything(alias)
        periodic.report_all(self._aliases, conductor_name())
        periodic.sweep_all(self._aliases, grace_seconds=0.0)
        for ticker in self._tickers:
            ticker.start()

    def serve(self, on_ready: Callable[[], None]) -> None:
        """Run the web server until SIGTERM or SIGINT; `on_ready` is called once it listens."""
        application = f"{settings.ASGI_APPLICATION.rpartition('.')[0]}:application"
        config = web_server.config_of(application, settings.NOVELLA_HOST, settings.NOVELLA_PORT)
        web_server.serve(config, on_ready)

    def stop(self) -> None:
        """Stop: start nothing new; what is under way ends, or continues after the next start."""
        for ticker in self._tickers:
            ticker.stop()
        self._worker.stop(timeout=WORKER_STOP_MILLISECONDS)
        self._agent.stop()
        INTAKE.stop()
        hand_on(self._aliases)
        self._group.leave()

    def _await_first_reports(self) -> None:
        """Wait for the hosts' first reports, so that resumed runs do not take a host for down that is only starting."""
        waiting = {(host.cell, host.host) for host in self._hosts}
        deadline = time.monotonic() + FIRST_REPORTS_SECONDS
        started_at = time.time()
        while waiting and time.monotonic() < deadline:
            waiting -= {(cell, host) for cell in {cell for cell, _ in waiting} for host in _reported(cell, started_at)}
            time.sleep(0.05)
        for _, host in sorted(waiting):
            log.warning("host has not reported yet: %s", host)


def enroll_all(hosts: Iterable[HostConfig]) -> None:
    """Load each host's identity, or create it, and register its key."""
    found: list[Credentials] = []
    conductor_keys = STORE.conductor_keys()
    for host in hosts:
        path = identities.path_of(Path(settings.NOVELLA_DATA), host.host)
        kept = _kept(path, host)
        own = kept.keys if kept is not None else (SigningKey.new(),)
        credentials = Credentials(host.host, host.cell, own, conductor_keys)
        if credentials != kept:
            identities.write(path, credentials, is_durable=False)  # a lost one is created again
        keys.serve_as(HostIdentity(path, credentials))
        found.append(credentials)
    host_keys.adopt(found)


def _kept(path: Path, host: HostConfig) -> Credentials | None:
    """Return the identity in the host's file; None where it is missing, unusable or another host's."""
    try:
        found = identities.read(path)
    except FileNotFoundError:
        return None
    except IdentityUnusable as error:
        log.warning("%s A new key is made.", error.message)
        return None
    return found if (found.host, found.cell) == (host.host, host.cell) else None


def _reported(cell: str, since: float) -> list[str]:
    """Return the hosts of a cell of which a report has been stored to its end since this time."""
    reported = Service.objects.using(cell).filter(binary="nova-compute").exclude(report_digest="")
    rows = reported.values_list("host", "last_seen_at")
    return [host for host, seen_at in rows if seen_at.timestamp() >= since - 1.0]


def is_alone(alias: str) -> bool:
    """Whether the lock on the data folder covers this database too: one on a server may have other conductors."""
    return bool(connections[alias].vendor == "sqlite")
