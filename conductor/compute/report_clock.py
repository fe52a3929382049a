"""Runs the hosts of an agent when their reports are due: one heap of times and a few threads, however many hosts."""

from __future__ import annotations

import heapq
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeVar

from conductor.compute.failures import THREAD_EXITS

log = logging.getLogger(__name__)

# Hosts that are due within this time are run together. An interval between reports is a random tenth shorter anyway.
TOGETHER_SECONDS = 0.25
MIN_REPORT_INTERVAL_SECONDS = 1.0  # after a command a host reports at once, but not more often than this
STALL_SECONDS = 0.05  # a due host that has waited this long gets another thread
LONGEST_SLEEP_SECONDS = 1.0


class DueHost(Protocol):
    """A host with a time on the monotonic clock; `run` starts it or reports, and may set another time."""

    due_at: float
    last_run_at: float

    def run(self) -> None: ...


H = TypeVar("H", bound=DueHost)


class ReportClock(Generic[H]):
    """Runs each host when it is due, one run of a host at a time.

    One thread runs all hosts in turn. Where a host takes long, another thread takes the next one, so that hosts that
    hang delay no other as long as a thread is left. `after_round` is called on a thread when no host waits any more.
    """

    def __init__(
        self,
        hosts: Iterable[H],
        heartbeat_seconds: float,
        *,
        threads: int,
        after_run: Callable[[H], None] = lambda _: None,
        after_round: Callable[[], None] = lambda: None,
    ) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._after_run = after_run
        self._after_round = after_round
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # the heap has an earlier time, or the clock stops
        self._has_work = threading.Condition(self._lock)
        self._is_done = threading.Condition(self._lock)
        # Entries whose time is not that of their host any more are outdated, and skipped.
        self._heap = [(host.due_at, number, host) for number, host in enumerate(hosts)]
        heapq.heapify(self._heap)
        self._count = len(self._heap)
        self._waiting: deque[H] = deque()
        self._busy: set[H] = set()  # waiting or running
        self._is_stopped = False
        self._threads = [
            threading.Thread(target=self._tick, name="compute-clock", daemon=True),
            *(threading.Thread(target=self._serve, name=f"compute-report-{n}", daemon=True) for n in range(threads)),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_seconds: float) -> bool:
        """Start no more runs and wait for those under way; return False when some did not end in time."""
        with self._lock:
            self._is_stopped = True
            self._busy.difference_update(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            self._has_work.notify_all()
            return self._is_done.wait_for(lambda: not self._busy, timeout_seconds)

    def bring_forward(self, host: H, due_at: float) -> None:
        """Run the host at `due_at`, unless it is due before."""
        with self._lock:
            if due_at < host.due_at:
                host.due_at = due_at
                if host not in self._busy:
                    self._schedule(host)

    def _schedule(self, host: H) -> None:
        self._count += 1
        heapq.heappush(self._heap, (host.due_at, self._count, host))
        if self._heap[0][2] is host:
            self._changed.notify()

    def _tick(self) -> None:
        """Hand over hosts that are due, to one thread as long as it keeps up."""
        with self._lock:
            while not self._is_stopped:
                self._collect(time.monotonic())
                pause = LONGEST_SLEEP_SECONDS
                if self._waiting:
                    self._has_work.notify()
                    pause = STALL_SECONDS
                next_due_at = self._heap[0][0] if self._heap else math.inf
                self._changed.wait(min(max(next_due_at - time.monotonic(), 0.0), pause))

    def _collect(self, now: float) -> None:
        """Move the hosts that are due to those that wait for a thread, if any is due at all."""
        if not self._heap or self._heap[0][0] > now:
            return
        later = []
        while self._heap and self._heap[0][0] <= now + TOGETHER_SECONDS:
            due_at, number, host = heapq.heappop(self._heap)
            if due_at != host.due_at or host in self._busy:
                continue
            if due_at > now and now - host.last_run_at < MIN_REPORT_INTERVAL_SECONDS:
                later.append((due_at, number, host))
                continue
            host.due_at = now + self._heartbeat_seconds * random.uniform(0.9, 1.0)
            self._busy.add(host)
            self._waiting.append(host)
        for entry in later:
            heapq.heappush(self._heap, entry)

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._is_stopped:
                    self._has_work.wait()
                if self._is_stopped:
                    return
                host = self._waiting.popleft()
            self._try(host.run)
            self._try(partial(self._after_run, host))
            if self._finish(host):
                self._try(self._after_round)

    def _finish(self, host: H) -> bool:
        """Schedule the host's next run; return whether no other host waits."""
        with self._lock:
            self._busy.discard(host)
            if self._is_stopped:
                self._is_done.notify_all()
            else:
                self._schedule(host)
            return not self._waiting

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (Exception, *THREAD_EXITS):  # a thread that ended here would be missing for ever
            log.exception("reports of hosts failed")
