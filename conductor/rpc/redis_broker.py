"""The Redis broker of dramatiq, asked less often: what is done is said with the next question, many in one go.

A question and its answer cost more than most of what is asked for: each is a script that Redis runs, and a turn of the
interpreter at both ends. What lies in Redis, and what dramatiq's script does with it, is as it was.
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

LOOK_SECONDS = 1.0  # at most between two questions: to say what is done, and that we live; also for what was put back
WAIT_SECONDS = 0.25  # for a message; so late a consumer notices that it is to stop
BLIND_SECONDS = 0.1  # between two questions where Redis cannot be waited in
MOST_AT_ONCE = 256
Command = tuple[Any, ...]  # its name, the queue, and its own words


class LeanRedisBroker(RedisBroker):
    """Says what is done and takes what is next in one round trip.

    Whatever a process had done and not said when it died is a doorbell that rings twice.
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
        """What this thread sends inside leaves at the end, in one go. Raises redis.RedisError; all may be lost then."""
        leaving: list[Command] = []
        self._here.leaving = leaving
        try:
            yield
        finally:
            self._here.leaving = None
        self._run_all(leaving)

    def do_enqueue(self, queue_name: str, message_id: str, data: bytes) -> None:
        """Now, or with what leaves together."""
        self._send(("enqueue", queue_name, message_id, data))

    def do_purge(self, queue_name: str) -> None:
        """In its turn, as `do_enqueue`."""
        self._send(("purge", queue_name))

    def do_ack(self, queue_name: str, message_id: str) -> None:
        """To be said with the next `do_fetch`, or by `say_done`."""
        self._done[queue_name].append(message_id)

    def do_fetch(self, queue_name: str, count: int) -> Any:
        """At most `count` messages, as bytes. Raises redis.RedisError; what is done is said the next time then."""
        return self._say_with(queue_name, [("fetch", queue_name, count)])[-1]

    def say_done(self, queue_name: str) -> None:
        """Before a consumer ends; raises as `do_fetch`."""
        while self._done[queue_name]:
            self._say_with(queue_name, [])

    def wait_for_any(self, queue_name: str, seconds: float) -> bool:
        """Wait for a message in the queue; False when none has come. Raises redis.ConnectionError.

        A Redis older than 6.2 does not know how to, and another may be told not to: there one is to ask now and then.
        """
        key = f"{self.namespace}:{queue_name}"
        try:
            moved = self.client.execute_command("BLMOVE", key, key, "LEFT", "LEFT", seconds)  # to where it was
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
        said = [done.popleft() for _ in range(min(len(done), MOST_AT_ONCE))]
        try:
            return self._run_all([*(("ack", queue_name, message_id) for message_id in said), *commands])
        except redis.RedisError:
            done.extend(said)
            raise

    def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to all commands, in one round trip; a Redis that has forgotten the script is told it again."""
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
        """What dramatiq's script is told before a command's own words."""
        return (
            command,
            current_millis(),
            queue_name,
            self.broker_id,
            self.heartbeat_timeout,
            self.dead_message_ttl,
            self._should_do_maintenance(command) if command == "fetch" else 0,  # who writes need not read the queue
            self._max_unpack_size(),
        )


class _Consumer(_RedisConsumer):
    """Asks when half of what it may have is done, and is woken for that; where nothing is left it waits in Redis."""

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
        with suppress(redis.RedisError):  # the next consumer says it
            self.broker.say_done(self.queue_name)
        super().close()

    def _more(self) -> Any:
        """What there is; nothing after a while, so that the thread sees whether it is to stop."""
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
