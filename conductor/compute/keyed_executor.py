"""Threads for work that may block: work with the same key runs in order, and no group can occupy all threads."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable

from conductor.compute.failures import THREAD_EXITS

log = logging.getLogger(__name__)

Work = Callable[[], None]


class KeyedExecutor:
    """Runs work in at most `threads` daemon threads, which start when they are first needed.

    Work of the same group and key runs one at a time, in the order of its submission. Of one group at most
    `max_parallel` pieces run side by side, so that a group that hangs cannot delay the others.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._max_threads = threads
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._changed = threading.Condition()
        self._queues: dict[tuple[Hashable, Hashable], deque[Work]] = {}
        self._ready: deque[tuple[Hashable, Hashable]] = deque()  # queues whose first work has not started
        self._running: defaultdict[Hashable, int] = defaultdict(int)
        self._limits: dict[Hashable, int] = {}
        self._is_stopped = False

    def submit(self, group: Hashable, key: Hashable, work: Work, *, max_parallel: int = 1) -> None:
        """Queue `work` behind earlier work of the same group and key; dropped after `stop`."""
        with self._changed:
            if self._is_stopped:
                return
            self._limits[group] = max_parallel
            queue_key = (group, key)
            if queue_key in self._queues:
                self._queues[queue_key].append(work)
                return
            self._queues[queue_key] = deque([work])
            self._ready.append(queue_key)
            if len(self._ready) > self._idle and len(self._threads) < self._max_threads:
                self._start_thread()
            self._changed.notify()

    def is_busy(self, group: Hashable, key: Hashable) -> bool:
        """Return whether work of the group and key is running or queued."""
        with self._changed:
            return (group, key) in self._queues

    def stop(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for running work; return False when some of it did not end in time."""
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
                queue_key = self._next_queue()
                if queue_key is None:
                    return
                work = self._queues[queue_key][0]
            try:
                work()
            except (Exception, *THREAD_EXITS):  # a thread that ended here would block its queue for ever
                log.exception("work failed: %s %s", self._name, queue_key)
            with self._changed:
                self._finish(queue_key)

    def _next_queue(self) -> tuple[Hashable, Hashable] | None:
        """Wait for a queue whose group may run one more piece of work; None after `stop`."""
        while not self._is_stopped:
            for queue_key in self._ready:
                if self._running[queue_key[0]] < self._limits[queue_key[0]]:
                    self._ready.remove(queue_key)
                    self._running[queue_key[0]] += 1
                    return queue_key
            self._idle += 1
            self._changed.wait()
            self._idle -= 1
        return None

    def _finish(self, queue_key: tuple[Hashable, Hashable]) -> None:
        self._running[queue_key[0]] -= 1
        queue = self._queues[queue_key]
        queue.popleft()
        if not queue:
            del self._queues[queue_key]
        elif not self._is_stopped:
            self._ready.append(queue_key)
        if self._is_stopped:  # otherwise this thread itself takes what has become ready
            self._changed.notify_all()
