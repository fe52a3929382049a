"""dramatiq's Redis broker with fewer round trips: acknowledgements are sent in batches, with the next fetch.

A round trip costs more than most of its commands: each one is a script that Redis runs, and work for the interpreter at
both ends. The data in Redis, and dramatiq's script, are unchanged.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import redis
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import current_millis, dq_name
from dramatiq.errors import ConnectionClosed

LOOK_SECONDS = 1.0  # maximum between two fetches, which also acknowledge and send heartbeats
WAIT_SECONDS = 0.25  # for a message; the maximum delay until a consumer stops
BLIND_SECONDS = 0.1  # between two fetches where Redis cannot block
MOST_AT_ONCE = 256
Command = tuple[Any, ...]  # its name, the queue, and its arguments


class LeanRedisBroker(RedisBroker):
    """Acknowledges messages and fetches the next ones in one round trip.

    A message that a process had handled but not acknowledged when it died is delivered twice.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._done: defaultdict[str, deque[str]] = defaultdict(deque)
        self._here = threading.local()

    @property
    def consumer_class(self) -> type[_RedisConsumer]:
        return _Consumer

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the commands of this block at its end, in one round trip. Raises redis.RedisError; all may be lost
        then.
        """
        leaving: list[Command] = []
        self._here.leaving = leaving
        try:
            yield
        finally:
            self._here.leaving = None
        self._run_all(leaving)

    def do_enqueue(self, queue_name: str, message_id: str, data: bytes) -> None:
        """Enqueue a message at once, or at the end of the block of `together`."""
        self._send(("enqueue", queue_name, message_id, data))

    def do_purge(self, queue_name: str) -> None:
        """Purge a queue at once, or at the end of the block of `together`."""
        self._send(("purge", queue_name))

    def do_ack(self, queue_name: str, message_id: str) -> None:
        """Acknowledge with the next `do_fetch`, or by `say_done`."""
        self._done[queue_name].append(message_id)

    def do_fetch(self, queue_name: str, count: int) -> Any:
        """Return at most `count` messages, as bytes.

        Raises redis.RedisError. Acknowledgements are then sent the next time.
        """
        return self._say_with(queue_name, [("fetch", queue_name, count)])[-1]

    def say_done(self, queue_name: str) -> None:
        """Send all acknowledgements before a consumer ends. Raises redis.RedisError."""
        while self._done[queue_name]:
            self._say_with(queue_name, [])

    def wait_for_any(self, queue_name: str, seconds: float) -> bool:
        """Wait for a message in the queue. False when none has come. Raises redis.ConnectionError.

        Consumers poll where Redis cannot block: it is older than 6.2, or the command is disabled.
        """
        key = f"{self.namespace}:{queue_name}"
        try:
            moved = self.client.execute_command("BLMOVE", key, key, "LEFT", "LEFT", seconds)  # back to its place
        except redis.ResponseError:
            time.sleep(BLIND_SECONDS)
            return True
        return moved is not None

    def _send(self, command: Command) -> None:
        leaving = getattr(self._here, "leaving", None)
        if leaving is None:
            self._run_all([command])
        else:
            leaving.append(command)

    def _say_with(self, queue_name: str, commands: Sequence[Command]) -> list[Any]:
        done = self._done[queue_name]
        lines = [done.popleft() for _ in range(min(len(done), MOST_AT_ONCE))]
        try:
            return self._run_all([*(("ack", queue_name, message_id) for message_id in lines), *commands])
        except redis.RedisError:
            done.extend(lines)
            raise

    def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Run all commands in one round trip, and return their results. Load the script again where Redis has lost
        it.
        """
        script = self.scripts["dispatch"]
        pipe = self.client.pipeline(transaction=False)
        for name, queue_name, *words in commands:
            pipe.evalsha(script.sha, 1, self.namespace, *self._words(name, queue_name), *words)
        try:
            return list(pipe.execute())
        except redis.exceptions.NoScriptError:
            self.client.script_load(script.script)
            return self._run_all(commands)

    def _words(self, command: str, queue_name: str) -> tuple[Any, ...]:
        """Return the leading arguments of dramatiq's script."""
        return (
            command,
            current_millis(),
            queue_name,
            self.broker_id,
            self.heartbeat_timeout,
            self.dead_message_ttl,
            self._should_do_maintenance(command) if command == "fetch" else 0,  # senders need not read the queue
            self._max_unpack_size(),
        )


class _Consumer(_RedisConsumer):
    """Fetches when half of its prefetched messages are done. It blocks in Redis while the queue is empty."""

    def __init__(self, broker: LeanRedisBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)
        self._has_room = threading.Event()
        self._is_delayed = dq_name(queue_name) == queue_name
        self._is_empty = False
        self._asked_at = float("-inf")

    def ack(self, message: Any) -> None:
        super().ack(message)
        if self._wants_more:
            self._has_room.set()

    def __next__(self) -> Any:
        if not self.message_cache:
            try:
                self.message_cache = self._more()
            except redis.ConnectionError as error:
                raise ConnectionClosed(error) from None
        return super().__next__() if self.message_cache else None

    def close(self) -> None:
        with suppress(redis.RedisError):  # the next consumer acknowledges
            self.broker.say_done(self.queue_name)
        super().close()

    def _more(self) -> Any:
        """Return new messages. Empty after a while, so that the thread can stop."""
        if not self._wants_more:
            self._has_room.wait(WAIT_SECONDS)
            self._has_room.clear()
            return []
        now = time.monotonic()
        if self._is_empty and now - self._asked_at < LOOK_SECONDS and not self._has_come():
            return []
        self._asked_at = now
        found = self.broker.do_fetch(self.queue_name, self.prefetch - self.outstanding_message_count)
        self._is_empty = not found
        return found

    def _has_come(self) -> bool:
        if self._is_delayed:
            time.sleep(WAIT_SECONDS)
            return False
        return bool(self.broker.wait_for_any(self.queue_name, WAIT_SECONDS))

    @property
    def _wants_more(self) -> bool:
        return bool(self.outstanding_message_count <= self.prefetch // 2)
