"""Delivery of committed events to the observers of plugins. Each has a thread, so that none can delay a workflow."""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass, field

from django.db import connections

from conductor import events
from conductor.core.errors import NovellaError
from conductor.core.extensions import FlowEvent, FlowObserver
from conductor.events import EventNotification
from conductor.scheduler.active_plugins import ExtensionFailed, InUse, in_use

log = logging.getLogger(__name__)

MOST_WAITING = 1000


@dataclass
class ObserverCall:
    """Queue and thread of one observer. Events beyond a full queue are dropped and counted."""

    one: InUse
    dropped: int = 0
    _waiting: queue.Queue[FlowEvent | None] = field(default_factory=lambda: queue.Queue(MOST_WAITING))
    _thread: threading.Thread | None = None

    def hear(self, event: FlowEvent) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            if not self.dropped:
                log.warning("observer is too slow, events pass it by: name=%s", self.one.extension.name)
            self.dropped += 1

    def begin(self) -> None:
        name = f"observer {self.one.extension.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self, seconds: float = 5.0) -> None:
        """Deliver the waiting events, and stop."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(seconds)
        self.one.worker.end()

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self.one.ask(event)
            except (ExtensionFailed, NovellaError):
                pass  # counted and logged by the call; the next event is tried again
            except Exception:
                log.exception("observer cannot be asked: name=%s", self.one.extension.name)
            finally:
                connections.close_all()  # the call's counters use them; the thread waits long between events


_deliveries: list[ObserverCall] = []


def listen() -> list[ObserverCall]:
    """Start delivery of this process's events to the configured observers; idempotent."""
    if not _deliveries:
        for one in in_use(FlowObserver.kind):
            _deliveries.append(ObserverCall(one))
            _deliveries[-1].begin()
        if _deliveries:
            events.subscribe(_hear)
    return list(_deliveries)


def _hear(announcement: EventNotification) -> None:
    event = FlowEvent(
        kind=announcement.kind,
        topic=announcement.topic,
        cell=announcement.alias,
        number=announcement.cursor,
        project_id=announcement.project_id,
        run_uuid=announcement.run_uuid,
        instance_uuid=announcement.instance_uuid,
    )
    for delivery in _deliveries:
        delivery.hear(event)
