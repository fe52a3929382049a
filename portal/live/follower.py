"""The only reader of the event log in a process: reads every event once, in order, and tracks the position.

    commit here ─────────▶ notification ──┐
    commit elsewhere ─▶ channel layer ────┼─▶ events after our position in the logs ──▶ listeners
    every few seconds ────────────────────┘

A listener reads the state up to `place` itself, and hears every event after it: none is reported twice, and none is
missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from channels.db import DatabaseSyncToAsync

from conductor.events import EventNotification
from conductor.services.workflows import event_log
from portal.live import hub

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_SECONDS = 5.0  # between reads without a notification, as one may have been lost
ALONE_LOOK_SECONDS = 0.3  # without notifications from other processes
LONGEST_LOOK_SECONDS = 5.0  # between reads of a log that fails
LEAST_PAUSE_SECONDS = 0.02  # between reads, coalescing notifications; longer while older writers hold events back
TICK_SECONDS = 1.0
MOST_AT_ONCE = 1000
LAYER_SECONDS = 600.0  # channel layers forget groups that are not renewed

readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="live")

_is_alone = False
_followers: dict[asyncio.AbstractEventLoop, Follower] = {}


class Listener(Protocol):
    """A listener to the event log."""

    def hear(self, events: Sequence[EventNotification]) -> None:
        """Receive the events after the last position, in order."""

    def start_anew(self) -> None:
        """Start again: a log was restored, or is readable again, so events may be missing."""

    def cells_changed(self) -> None:
        """React to a cell that became unreachable or reachable."""


async def read(question: Callable[[], T]) -> T:
    """Run a database query on one of the reader threads of live pages."""
    return await DatabaseSyncToAsync(question, thread_sensitive=False, executor=readers)()  # type: ignore[no-any-return]


def follow_the_log() -> None:
    """Poll the log often, because no channel layer connects the processes."""
    global _is_alone
    _is_alone = True


def here() -> Follower:
    """Return the follower of the running loop."""
    loop = asyncio.get_running_loop()
    for other in [one for one in _followers if one.is_closed()]:
        del _followers[other]
    return _followers.setdefault(loop, Follower(loop))


class Follower:
    """Reads the event log while it has listeners."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.place: dict[str, int] = {}
        self._missing: frozenset[str] = frozenset()  # databases whose log cannot be read
        self._loop = loop
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._heard: dict[str, int] = {}  # from threads that commit
        self._notified: dict[str, int] = {}  # notified, but not read yet
        self._held_back = 0  # consecutive reads that did not find the notified events
        self._bell = asyncio.Event()
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, listener: Listener) -> None:
        """Notify `listener` of every event after `place`."""
        self._listeners.add(listener)
        if not self._tasks:
            self.place, self._notified = {}, {}
            self._ready, self._bell = asyncio.Event(), asyncio.Event()
            hub.add_sink(self._notify_from_any_thread)
            self._tasks = [self._loop.create_task(self._run()), self._loop.create_task(self._hear_others())]
        await self._ready.wait()

    def leave(self, listener: Listener) -> None:
        """Remove a listener; after the last one, stop reading."""
        self._listeners.discard(listener)
        if not self._listeners and self._tasks:
            hub.remove_sink(self._notify_from_any_thread)
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    # -- notifications ------------------------------------------------------------------------------------------

    def _notify_from_any_thread(self, alias: str, number: int) -> None:
        """Take a notification from a committing thread; many of them make one call to the loop."""
        with self._lock:
            is_first = not self._heard
            self._heard[alias] = max(self._heard.get(alias, 0), number)
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._take)
            except RuntimeError:  # the loop has ended with a listener left
                hub.remove_sink(self._notify_from_any_thread)

    def _take(self) -> None:
        with self._lock:
            heard, self._heard = self._heard, {}
        self._notify(heard)

    def _notify(self, numbers: hub.Numbers) -> None:
        for alias, number in numbers.items():
            if number > self.place.get(alias, 0):
                self._notified[alias] = max(self._notified.get(alias, 0), number)
                self._bell.set()

    async def _hear_others(self) -> None:
        layer, outage = hub.spanning_layer(), hub.ChannelOutage()
        while layer is not None:
            try:
                channel = await layer.new_channel()
                while True:
                    await layer.group_add(hub.GROUP, channel)
                    outage.over()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LAYER_SECONDS):
                            while True:
                                self._notify((await layer.receive(channel))["numbers"])
            except hub.when_it_is_down() as error:
                outage.begun(error)
                await asyncio.sleep(LONGEST_LOOK_SECONDS)

    # -- reading ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        looked_at, failures = -LOOK_SECONDS, 0
        while True:
            now = self._loop.time()
            is_whole = now - looked_at >= (ALONE_LOOK_SECONDS if _is_alone else LOOK_SECONDS)
            try:
                if is_whole or self._notified:
                    await self._look(is_whole=is_whole)
                looked_at, failures = now if is_whole else looked_at, 0
            except Exception:
                if not failures:  # logged once, not at every read
                    log.exception("the event log cannot be read: pages show what is new a little later")
                failures += 1
                await asyncio.sleep(min(ALONE_LOOK_SECONDS * 2**failures, LONGEST_LOOK_SECONDS))
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(min(LEAST_PAUSE_SECONDS * 2**self._held_back, TICK_SECONDS))
        if not self._notified:
            self._bell.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_LOOK_SECONDS if _is_alone else min(LOOK_SECONDS, TICK_SECONDS)):
                    await self._bell.wait()

    async def _look(self, *, is_whole: bool) -> None:
        if is_whole:
            await self._check_ends()
        place = dict(self.place)
        aliases = sorted(place if is_whole else place.keys() & self._notified.keys())
        found, reached = await read(lambda: event_log.after(place, MOST_AT_ONCE, aliases=aliases))
        self.place = dict(reached)
        self._notified = {
            alias: number for alias, number in self._notified.items() if number > self.place.get(alias, 0)
        }
        self._held_back = min(self._held_back + 1, 8) if self._notified and not found else 0
        if len(found) >= MOST_AT_ONCE:
            self._notified |= {alias: number + 1 for alias, number in self.place.items()}  # there may be more
        if found:
            for listener in list(self._listeners):
                _notify(lambda listener=listener: listener.hear(found))  # type: ignore[misc]

    async def _check_ends(self) -> None:
        """Compare our position with each log's end: start at the end of one that is new or shorter than that."""
        ends, missing = await read(event_log.ends)
        is_first = not self._ready.is_set()
        is_other, self._missing = missing != self._missing, missing
        anew = {alias: end for alias, end in ends.items() if end < self.place.get(alias, end + 1)}
        self.place |= anew
        self._notified = {alias: number for alias, number in self._notified.items() if alias not in anew}
        self._ready.set()
        for listener in list(self._listeners) if not is_first else ():
            if anew:
                _notify(listener.start_anew)
            elif is_other:
                _notify(listener.cells_changed)


def _notify(say: Callable[[], None]) -> None:
    try:
        say()
    except Exception:  # an error of one listener must not keep events from the others
        log.exception("a follower of the event log could not be notified")
