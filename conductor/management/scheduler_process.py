"""Process of a scheduler that is a service of its own: a worker on its queue, its reports, its place in the group."""

from __future__ import annotations

import logging
import threading

from django.conf import settings

from conductor import process_names
from conductor.actors import liveness
from conductor.actors import scheduler as scheduler_actors
from conductor.actors.periodic import PERIODIC_WORK_SECONDS, Ticker
from conductor.actors.scheduler import MOST_AT_ONCE, SchedulerService
from conductor.core import garbage
from conductor.core.membership import Member
from conductor.rpc import broker, trust
from conductor.rpc.envelope import Refused
from conductor.scheduler.plugin_health import plugin_watch

log = logging.getLogger(__name__)

THREADS = 2  # they only receive calls: one thread of the service answers them
STOP_MILLISECONDS = 5_000
DRAIN_SECONDS = 2.0


class SchedulerProcess:
    """A scheduler, with its queue. Conductors call it once they have its first report."""

    def __init__(self, name: str) -> None:
        trust.on_refusal(_log_refusal)
        self._service = SchedulerService(name)
        self._me = Member(worker=process_names.mine(), name=name)
        self._memberships = liveness.memberships()
        self._worker = broker.make_worker([broker.scheduler_queue(name)], threads=THREADS, prefetch=MOST_AT_ONCE)
        self._tickers = [
            Ticker("scheduler-report", settings.NOVELLA_HEARTBEAT_SECONDS, self._service.report),
            Ticker("plugin-records", PERIODIC_WORK_SECONDS, plugin_watch.flush_if_due),
        ]

    def start(self) -> None:
        for membership in self._memberships:  # conductors learn of its end, and call another one
            membership.join(self._me, lambda life: None)
        scheduler_actors.serve(self._service)
        self._service.start()
        self._worker.start()
        self._service.report()
        for ticker in self._tickers:
            ticker.start()
        garbage.settle()

    def serve(self, stop: threading.Event) -> None:
        stop.wait()

    def stop(self) -> None:
        """Stop: receive no more calls, and finish those under way."""
        self._worker.stop(timeout=STOP_MILLISECONDS)
        self._service.stop()
        for ticker in self._tickers:
            ticker.stop()
        broker.drain(DRAIN_SECONDS)
        for membership in self._memberships:
            membership.leave()


def _log_refusal(refused: Refused) -> None:
    log.warning("call refused: cause=%s sender=%s", refused.cause, refused.sender)
