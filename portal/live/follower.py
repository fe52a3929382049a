"""The one reader of the event log in a process: every event once, in order, and the place up to which it has read.

commit here ─────────▶ ring ──┐
commit elsewhere ─▶ layer ────┼─▶ what came after our place in the logs ──▶ who listens
every few seconds ────────────┘

What was read before somebody came and what is read from then on meet at `place`: nothing is told twice, and nothing
falls in between.
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

from conductor.events import Announcement
from conductor.services import event_log
from portal.live import hub

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_SECONDS = 5.0  # between looks without a ring: one may have been lost
ALONE_LOOK_SECONDS = 0.3  # where nothing rings for other processes
LONGEST_LOOK_SECONDS = 5.0  # between looks at a log that fails
LEAST_PAUSE_SECONDS = 0.02  # between looks: rings in between melt into one; longer while older writers hold back
TICK_SECONDS = 1.0
MOST_AT_ONCE = 1000
LAYER_SECONDS = 600.0  # groups of a layer forget those that do not come again

readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="live")

_is_alone = False
_followers: dict[asyncio.AbstractEventLoop, Follower] = {}


class Ear(Protocol):
    """Somebody who listens."""

    def hear(self, events: Sequence[Announcement]) -> None:
        """What came after the last place, in order."""

    def start_anew(self) -> None:
        """A log was put back, or is there again: what was between is not known."""

    def cells_changed(self) -> None:
        """A cell fell silent or answers again: what is shown of it is another."""


async def read(question: Callable[[], T]) -> T:
    """Ask a database, on one of the few threads that do so for live pages."""
    return await DatabaseSyncToAsync(question, thread_sensitive=False, executor=readers)()  # type: ignore[no-any-return]


def follow_the_log() -> None:
    """No layer spans the processes: look into the log itself, often."""
    global _is_alone
    _is_alone = True


def here() -> Follower:
    """The follower of the running loop."""
    loop = asyncio.get_running_loop()
    for other in [one for one in _followers if one.is_closed()]:
        del _followers[other]
    return _followers.setdefault(loop, Follower(loop))


class Follower:
    """Reads while somebody listens."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.place: dict[str, int] = {}
        self._missing: frozenset[str] = frozenset()  # databases whose log cannot be read
        self._loop = loop
        self._ears: set[Ear] = set()
        self._gate = threading.Lock()
        self._heard: dict[str, int] = {}  # by threads that commit
        self._rung: dict[str, int] = {}  # and not read yet
        self._held_back = 0  # looks in a row that did not find what was rung
        self._bell = asyncio.Event()
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, ear: Ear) -> None:
        """From now on `ear` hears every event after `place`."""
        self._ears.add(ear)
        if not self._tasks:
            self.place, self._rung = {}, {}
            self._ready, self._bell = asyncio.Event(), asyncio.Event()
            hub.hang(self._ring_from_anywhere)
            self._tasks = [self._loop.create_task(self._run()), self._loop.create_task(self._hear_others())]
        await self._ready.wait()

    def leave(self, ear: Ear) -> None:
        """Nobody is left: nothing is read any more."""
        self._ears.discard(ear)
        if not self._ears and self._tasks:
            hub.take_down(self._ring_from_anywhere)
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    # -- rings --------------------------------------------------------------------------------------------------

    def _ring_from_anywhere(self, alias: str, number: int) -> None:
        """In the thread that has committed; many rings are one call of the loop."""
        with self._gate:
            is_first = not self._heard
            self._heard[alias] = max(self._heard.get(alias, 0), number)
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._take)
            except RuntimeError:  # the loop has ended, with somebody still there
                hub.take_down(self._ring_from_anywhere)

    def _take(self) -> None:
        with self._gate:
            heard, self._heard = self._heard, {}
        self._ring(heard)

    def _ring(self, numbers: hub.Numbers) -> None:
        for alias, number in numbers.items():
            if number > self.place.get(alias, 0):
                self._rung[alias] = max(self._rung.get(alias, 0), number)
                self._bell.set()

    async def _hear_others(self) -> None:
        layer, outage = hub.spanning_layer(), hub.Outage()
        while layer is not None:
            try:
                channel = await layer.new_channel()
                while True:
                    await layer.group_add(hub.GROUP, channel)
                    outage.over()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LAYER_SECONDS):
                            while True:
                                self._ring((await layer.receive(channel))["numbers"])
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
                if is_whole or self._rung:
                    await self._look(is_whole=is_whole)
                looked_at, failures = now if is_whole else looked_at, 0
            except Exception:
                if not failures:  # said once, not at every look
                    log.exception("the event log cannot be read: pages show what is new a little later")
                failures += 1
                await asyncio.sleep(min(ALONE_LOOK_SECONDS * 2**failures, LONGEST_LOOK_SECONDS))
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(min(LEAST_PAUSE_SECONDS * 2**self._held_back, TICK_SECONDS))
        if not self._rung:
            self._bell.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_LOOK_SECONDS if _is_alone else min(LOOK_SECONDS, TICK_SECONDS)):
                    await self._bell.wait()

    async def _look(self, *, is_whole: bool) -> None:
        if is_whole:
            await self._check_ends()
        place = dict(self.place)
        aliases = sorted(place if is_whole else place.keys() & self._rung.keys())
        found, reached = await read(lambda: event_log.after(place, MOST_AT_ONCE, aliases=aliases))
        self.place = dict(reached)
        self._rung = {alias: number for alias, number in self._rung.items() if number > self.place.get(alias, 0)}
        self._held_back = min(self._held_back + 1, 8) if self._rung and not found else 0
        if len(found) >= MOST_AT_ONCE:
            self._rung |= {alias: number + 1 for alias, number in self.place.items()}  # there may be more
        if found:
            for ear in list(self._ears):
                _tell(lambda ear=ear: ear.hear(found))  # type: ignore[misc]

    async def _check_ends(self) -> None:
        """Where the logs stand: one that is new to us, or ends before our place, begins anew there."""
        ends, missing = await read(event_log.ends)
        is_first = not self._ready.is_set()
        is_other, self._missing = missing != self._missing, missing
        anew = {alias: end for alias, end in ends.items() if end < self.place.get(alias, end + 1)}
        self.place |= anew
        self._rung = {alias: number for alias, number in self._rung.items() if alias not in anew}
        self._ready.set()
        for ear in list(self._ears) if not is_first else ():
            if anew:
                _tell(ear.start_anew)
            elif is_other:
                _tell(ear.cells_changed)


def _tell(say: Callable[[], None]) -> None:
    try:
        say()
    except Exception:  # one that cannot hear must not make the others deaf
        log.exception("somebody who follows the log could not be told")
