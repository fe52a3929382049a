"""Threads for work that may block: in one lane one after another, and no group takes them all."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable

from conductor.compute.driver_words import ENDS_THREADS

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Lanes:
    """Runs work in at most `threads` daemon threads, which start when they are first needed.

    Work of the same group and lane runs in the order in which it came, never two at once; of one group at most
    `most_at_once` runs side by side, so a group that hangs keeps nobody else waiting.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most_threads = threads
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._changed = threading.Condition()
        self._lanes: dict[tuple[Hashable, Hashable], deque[Work]] = {}
        self._ready: deque[tuple[Hashable, Hashable]] = deque()  # lanes whose first work nobody has begun
        self._running: defaultdict[Hashable, int] = defaultdict(int)
        self._limits: dict[Hashable, int] = {}
        self._is_stopped = False

    def submit(self, group: Hashable, lane: Hashable, work: Work, *, most_at_once: int = 1) -> None:
        """Have `work` done after all that came before it in its lane; dropped when the lanes were stopped."""
        with self._changed:
            if self._is_stopped:
                return
            self._limits[group] = most_at_once
            place = (group, lane)
            if place in self._lanes:
                self._lanes[place].append(work)
                return
            self._lanes[place] = deque([work])
            self._ready.append(place)
            if len(self._ready) > self._idle and len(self._threads) < self._most_threads:
                self._start_thread()
            self._changed.notify()

    def is_busy(self, group: Hashable, lane: Hashable) -> bool:
        """Whether work in the lane is under way or waits."""
        with self._changed:
            return (group, lane) in self._lanes

    def stop(self, timeout_seconds: float) -> bool:
        """Begin nothing more and wait for what is under way; False when some of it did not end in time."""
        with self._changed:
            self._is_stopped = True
            self._ready.clear()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not any(self._running.values()), timeout_seconds)

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                place = self._take()
                if place is None:
                    return
                work = self._lanes[place][0]
            try:
                work()
            except (Exception, *ENDS_THREADS):  # a thread that ended here would keep its lane for ever
                log.exception("work failed: %s %s", self._name, place)
            with self._changed:
                self._leave(place)

    def _take(self) -> tuple[Hashable, Hashable] | None:
        """Wait for a lane whose group may run one more; None at the end."""
        while not self._is_stopped:
            for place in self._ready:
                if self._running[place[0]] < self._limits[place[0]]:
                    self._ready.remove(place)
                    self._running[place[0]] += 1
                    return place
            self._idle += 1
            self._changed.wait()
            self._idle -= 1
        return None

    def _leave(self, place: tuple[Hashable, Hashable]) -> None:
        self._running[place[0]] -= 1
        lane = self._lanes[place]
        lane.popleft()
        if not lane:
            del self._lanes[place]
        elif not self._is_stopped:
            self._ready.append(place)
        if self._is_stopped:  # else nobody is woken: what may begin by this is begun by this thread, which looks next
            self._changed.notify_all()
