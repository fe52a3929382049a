"""Senders of messages: directly into memory, or to a real broker on a thread, without delaying the committer."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from dramatiq import Broker, Message

from conductor.rpc.trust import TO_CONDUCTOR, TO_SCHEDULER

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
MOST_AT_ONCE = 64
TEND_SECONDS = 5.0
LOOK_SECONDS = 0.5
# Minimum pause between connection attempts while a broker is down; lost messages are sent again later.
PAUSE_SECONDS = 0.5


class Outage:
    """Logs once that the broker is down, and once that it is back, for all threads together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    @property
    def is_on(self) -> bool:
        """Return whether the last attempt to reach the broker failed."""
        return self._since is not None

    def begun(self, cause: str) -> None:
        with self._lock:
            is_new, self._since = self._since is None, self._since or time.monotonic()
        if is_new:
            log.error("the broker does not answer (%s): notifications are lost, and sent again by the sweep", cause)

    def over(self) -> None:
        if self._since is None:  # the typical case, without the lock
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("the broker answers again, after %.1f seconds", time.monotonic() - since)


class Sender(Protocol):
    def send(self, message: Message[Any], delay: int | None = None) -> None: ...

    def forget(self, queue_name: str) -> None: ...

    def drain(self, seconds: float) -> bool: ...

    def close(self) -> None: ...


class BrokerSetup(Protocol):
    """The properties of a kind of broker that a sender uses."""

    @property
    def tend(self) -> Callable[[Any], object]: ...

    @property
    def expect(self) -> Callable[[Any, str], object]: ...

    @property
    def together(self) -> Callable[[Any], AbstractContextManager[None]]: ...

    @property
    def forget(self) -> Callable[[Any, str], object]: ...


class AtOnce:
    """Sends into memory, without delay or outage."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, message: Message[Any], delay: int | None = None) -> None:
        self._broker.declare_queue(message.queue_name)
        self._broker.enqueue(message, delay=delay)

    def forget(self, queue_name: str) -> None:
        """Do nothing: an in-memory queue ends with the process."""

    def drain(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        """Do nothing."""


class Publisher:
    """Sends to another process. `send` never raises and never waits: a message that cannot be sent is lost.

    One thread has the only connection that sends. `kind.tend` keeps it alive while there is nothing to send.
    """

    def __init__(self, broker: Broker, kind: BrokerSetup, outage: Outage) -> None:
        self._broker = broker
        self._kind = kind
        self._outage = outage
        self._waiting: queue.Queue[Callable[[], object]] = queue.Queue(MOST_WAITING)
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._quiet_until = 0.0
        self._is_closed = threading.Event()

    def send(self, message: Message[Any], delay: int | None = None) -> None:
        self._put(partial(self._deliver, message, delay))

    def forget(self, queue_name: str) -> None:
        """Delete the queue, after the messages that were sent before."""
        self._put(partial(self._kind.forget, self._broker, queue_name))

    def _put(self, act: Callable[[], object]) -> None:
        if self._thread is None:
            self._start()
        with contextlib.suppress(queue.Full):  # full only when the broker hangs: the sweep sends again
            self._waiting.put_nowait(act)

    def drain(self, seconds: float) -> bool:
        """Wait until all queued messages are sent. False when that takes longer."""
        deadline = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self._waiting.unfinished_tasks

    def close(self) -> None:
        """End the thread. Queued messages are lost."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(TEND_SECONDS)

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        tended_at = time.monotonic()
        while not self._is_closed.is_set():
            acts = self._next()
            if not acts:
                if time.monotonic() - tended_at >= TEND_SECONDS:
                    tended_at = time.monotonic()
                    self._try(partial(self._kind.tend, self._broker))
                continue
            if time.monotonic() >= self._quiet_until:
                self._try(partial(self._do_all, acts))
            for _ in acts:
                self._waiting.task_done()

    def _next(self) -> list[Callable[[], object]]:
        """Return queued work once there is any. None after a while."""
        acts: list[Callable[[], object]] = []
        with contextlib.suppress(queue.Empty):
            acts.append(self._waiting.get(timeout=LOOK_SECONDS))
            while len(acts) < MOST_AT_ONCE:
                acts.append(self._waiting.get_nowait())
        return acts

    def _do_all(self, acts: Iterable[Callable[[], object]]) -> None:
        with self._kind.together(self._broker):
            for act in acts:
                act()

    def _deliver(self, message: Message[Any], delay: int | None) -> None:
        if message.actor_name in (TO_CONDUCTOR, TO_SCHEDULER) and delay is None:
            self._kind.expect(self._broker, message.queue_name)
        self._broker.declare_queue(message.queue_name)
        self._broker.enqueue(message, delay=delay)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # whatever the error is, a lost message must not end the thread
            self._quiet_until = time.monotonic() + PAUSE_SECONDS
            self._outage.begun(type(error).__name__)
        else:
            self._outage.over()
