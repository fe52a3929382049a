"""Everything in one process: dramatiq workers, agents, periodic work, and the web server in the main thread."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from socket import socket

import dramatiq
import uvicorn
from django.conf import settings
from dramatiq import Worker

from conductor import plugins
from conductor.actors import compute as compute_door
from conductor.actors import conductor as conductor_door
from conductor.actors import periodic
from conductor.cell_db.models import Service
from conductor.cells.lookup import journal_aliases, queue_of
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.image.store import open_image
from conductor.rpc.broker import COMPUTE_QUEUE, broker
from conductor.workflows import recovery

log = logging.getLogger(__name__)

WORKER_THREADS = 8  # the agents only take commands on them, and act on threads of their own
FIRST_REPORTS_SECONDS = 15.0
WORKER_STOP_MILLISECONDS = 10_000


class Embedded:
    """The parts of the embedded default, started bottom-up and stopped top-down."""

    def __init__(self, hosts: tuple[HostConfig, ...]) -> None:
        self._hosts = hosts
        self._agent = ComputeAgent(hosts, plugins.registry().drivers, open_image, settings.NOVELLA_HEARTBEAT_SECONDS)
        self._worker = _worker({COMPUTE_QUEUE, *(queue_of(alias) for alias in journal_aliases())})
        self._tickers = periodic.tickers()

    def start(self) -> None:
        """Start all but the web server; returns when every host that can report has done so."""
        assert conductor_door is not None, "importing the doors registers their actors"
        self._worker.start()
        compute_door.serve(self._agent)
        self._agent.start()
        self._await_first_reports()
        for alias in journal_aliases():
            recovery.take_over_everything(alias)
            recovery.sweep(alias, grace_seconds=0.0)
        for ticker in self._tickers:
            ticker.start()

    def serve(self, on_ready: Callable[[], None]) -> None:
        """Run the web server until SIGTERM or SIGINT; `on_ready` is called once it listens."""
        config = uvicorn.Config(
            f"{settings.ASGI_APPLICATION.rpartition('.')[0]}:application",
            host=settings.NOVELLA_HOST,
            port=settings.NOVELLA_PORT,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            lifespan="off",
        )
        # The server hands its signal on once it has shut down; ours to take, as the rest is still to be stopped.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        _Server(config, on_ready).run()

    def stop(self) -> None:
        """End cleanly: nothing new is begun, what is under way ends or is taken up at the next start."""
        for ticker in self._tickers:
            ticker.stop()
        self._worker.stop(timeout=WORKER_STOP_MILLISECONDS)
        self._agent.stop()

    def _await_first_reports(self) -> None:
        """A run that is resumed must not take a host for dead that only had no time yet to say that it lives."""
        waiting = {(host.cell, host.host) for host in self._hosts}
        deadline = time.monotonic() + FIRST_REPORTS_SECONDS
        started_at = time.time()
        while waiting and time.monotonic() < deadline:
            waiting -= {(cell, host) for cell, host in waiting if _has_reported(cell, host, started_at)}
            time.sleep(0.05)
        for _, host in sorted(waiting):
            log.warning("host has not reported yet: %s", host)


def _has_reported(cell: str, host: str, since: float) -> bool:
    seen = Service.objects.using(cell).filter(host=host, binary="nova-compute").values_list("last_seen_at", flat=True)
    return any(moment.timestamp() >= since - 1.0 for moment in seen)


def _worker(queues: set[str]) -> Worker:
    for queue in queues:
        broker.declare_queue(queue)
    return dramatiq.Worker(broker, queues=queues, worker_threads=WORKER_THREADS, worker_timeout=100)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()
