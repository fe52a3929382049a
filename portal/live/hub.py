"""Notifications from commits to the readers of the log: the new end of a log, never the events."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

from conductor import events
from conductor.events import EventNotification

log = logging.getLogger(__name__)

GROUP = "live.notifications"
LEAST_PAUSE_SECONDS = 0.05  # between notifications to other processes; a burst is sent as one

Numbers = Mapping[str, int]  # the newest event of each log
NoticeSink = Callable[[str, int], None]

_sinks: set[NoticeSink] = set()
_lock = threading.Lock()


def listen() -> None:
    """Notify processes with sockets of every commit that appended an event.

    Calling it again changes nothing.
    """
    events.subscribe(_hear)


def add_sink(sink: NoticeSink) -> None:
    """Call `sink` with each notification, in the committing thread: it must return at once and never raise."""
    listen()
    with _lock:
        _sinks.add(sink)


def remove_sink(sink: NoticeSink) -> None:
    """Stop calling a sink that `add_sink` added."""
    with _lock:
        _sinks.discard(sink)


def spanning_layer() -> Any:
    """Return the channel layer between processes; None for a single process."""
    layer = get_channel_layer()
    return None if isinstance(layer, InMemoryChannelLayer) else layer


class ChannelOutage:
    """Logs the loss of the channel layer once, and its return once."""

    def __init__(self) -> None:
        self._is_on = False

    def begun(self, error: Exception) -> None:
        if not self._is_on:
            log.error("live events cannot be sent (%s): pages show what is new a little later", type(error).__name__)
        self._is_on = True

    def over(self) -> None:
        if self._is_on:
            log.warning("live events are sent again")
        self._is_on = False


def when_it_is_down() -> tuple[type[Exception], ...]:
    """Return the exceptions of an unreachable layer.

    Redis's are known only where its client, a large library, is loaded.
    """
    redis = sys.modules.get("redis.exceptions")
    return (OSError,) if redis is None else (OSError, redis.RedisError)


class _Publisher:
    """Notifies other processes, from an event loop that starts with the first notification."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._is_scheduled = False
        self._left_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outage = ChannelOutage()

    def notify(self, layer: Any, alias: str, number: int) -> None:
        with self._lock:
            self._numbers[alias] = max(self._numbers.get(alias, 0), number)
            if self._is_scheduled:
                return
            self._is_scheduled = True
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="live-publisher", daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._send(layer), self._loop)

    async def _send(self, layer: Any) -> None:
        await asyncio.sleep(max(0.0, self._left_at + LEAST_PAUSE_SECONDS - time.monotonic()))
        with self._lock:
            numbers, self._numbers = self._numbers, {}
            self._is_scheduled = False
            self._left_at = time.monotonic()
        try:
            await layer.group_send(GROUP, {"type": "live.notification", "numbers": numbers})
        except when_it_is_down() as error:  # readers poll the log too, so they find the events later
            self._outage.begun(error)
        else:
            self._outage.over()


_publisher = _Publisher()


def _hear(announcement: EventNotification) -> None:
    """Handle a commit in its thread, which must not wait for a socket."""
    alias, number = announcement.alias, announcement.cursor
    with _lock:
        sinks = list(_sinks)
    for sink in sinks:
        sink(alias, number)
    layer = spanning_layer()
    if layer is not None:
        _publisher.notify(layer, alias, number)
