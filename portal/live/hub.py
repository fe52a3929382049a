"""From commits to the readers of the log: a ring says how far a log has got, never what happened."""

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
from conductor.events import Announcement

log = logging.getLogger(__name__)

GROUP = "live.rings"
LEAST_PAUSE_SECONDS = 0.05  # between rings to other processes: a burst leaves as one

Numbers = Mapping[str, int]  # the newest event of each log
Bell = Callable[[str, int], None]

_bells: set[Bell] = set()
_gate = threading.Lock()


def listen() -> None:
    """Ring after every commit that appended an event, from a process without sockets in those that have some.

    Calling it again changes nothing.
    """
    events.subscribe(_hear)


def hang(bell: Bell) -> None:
    """Call `bell` with each ring, in whichever thread has committed: it must return at once and never raise."""
    listen()
    with _gate:
        _bells.add(bell)


def take_down(bell: Bell) -> None:
    """The inverse of `hang`."""
    with _gate:
        _bells.discard(bell)


def spanning_layer() -> Any:
    """The layer between processes; None where this process is the only one."""
    layer = get_channel_layer()
    return None if isinstance(layer, InMemoryChannelLayer) else layer


class Outage:
    """Says once that the layer is gone, and once that it is back."""

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
    """What a layer raises then; Redis is a large library, and where it is not loaded nothing of it is raised."""
    redis = sys.modules.get("redis.exceptions")
    return (OSError,) if redis is None else (OSError, redis.RedisError)


class _Publisher:
    """Rings in other processes, from a loop of its own that begins with the first ring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._is_scheduled = False
        self._left_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outage = Outage()

    def ring(self, layer: Any, alias: str, number: int) -> None:
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
            await layer.group_send(GROUP, {"type": "live.ring", "numbers": numbers})
        except when_it_is_down() as error:  # readers look into the log from time to time, and find what was not rung
            self._outage.begun(error)
        else:
            self._outage.over()


_publisher = _Publisher()


def _hear(announcement: Announcement) -> None:
    """Called in the thread that committed, which must not wait for a socket."""
    alias, number = announcement.alias, announcement.cursor
    with _gate:
        bells = list(_bells)
    for bell in bells:
        bell(alias, number)
    layer = spanning_layer()
    if layer is not None:
        _publisher.ring(layer, alias, number)
