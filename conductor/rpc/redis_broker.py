"""The Redis broker of dramatiq, asked less often: what is done is said with the next question, many in one go.

A question and its answer cost more than most of what is asked for: each is a script that Redis runs, and a turn of the
interpreter at both ends. What lies in Redis, and what dramatiq's script does with it, is as it was.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import current_millis, dq_name

DELAYED_LOOK_SECONDS = 1.0  # what was put back is not wanted any sooner
MOST_AT_ONCE = 256


class LeanRedisBroker(RedisBroker):
    """Says what is done and takes what is next in one round trip.

    Whatever a process had done and not said when it died is a doorbell that rings twice.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._done: defaultdict[str, deque[str]] = defaultdict(deque)

    @property
    def consumer_class(self) -> type[_RedisConsumer]:
        return _Consumer

    def do_ack(self, queue_name: str, message_id: str) -> None:
        """To be said with the next `do_fetch`, or by `say_done`."""
        self._done[queue_name].append(message_id)

    def do_fetch(self, queue_name: str, count: int) -> Any:
        """At most `count` messages, as bytes. Raises redis.RedisError; what is done is said the next time then."""
        return self._say_with(queue_name, [("fetch", count)])[-1]

    def say_done(self, queue_name: str) -> None:
        """Before a consumer ends; raises as `do_fetch`."""
        while self._done[queue_name]:
            self._say_with(queue_name, [])

    def _say_with(self, queue_name: str, commands: Sequence[tuple[str, Any]]) -> list[Any]:
        done = self._done[queue_name]
        said = [done.popleft() for _ in range(min(len(done), MOST_AT_ONCE))]
        try:
            return self._run_all(queue_name, [*(("ack", message_id) for message_id in said), *commands])
        except redis.RedisError:
            done.extend(said)
            raise

    def _run_all(self, queue_name: str, commands: Sequence[tuple[str, Any]]) -> list[Any]:
        """The answers to all commands, in one round trip; a Redis that has forgotten the script is told it again."""
        script = self.scripts["dispatch"]
        pipe = self.client.pipeline(transaction=False)
        for command, argument in commands:
            pipe.evalsha(script.sha, 1, self.namespace, *self._words(command, queue_name), argument)
        try:
            return list(pipe.execute())
        except redis.exceptions.NoScriptError:
            self.client.script_load(script.script)
            return self._run_all(queue_name, commands)

    def _words(self, command: str, queue_name: str) -> tuple[Any, ...]:
        """What dramatiq's script is told before a command's own words."""
        return (
            command,
            current_millis(),
            queue_name,
            self.broker_id,
            self.heartbeat_timeout,
            self.dead_message_ttl,
            self._should_do_maintenance(command),
            self._max_unpack_size(),
        )


class _Consumer(_RedisConsumer):
    """Asks when half of what it may have is done, and is woken for that."""

    def __init__(self, broker: LeanRedisBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)
        self._has_room = threading.Event()
        self._is_delayed = dq_name(queue_name) == queue_name
        self._looked_at = float("-inf")

    def ack(self, message: Any) -> None:
        super().ack(message)
        if self._wants_more:
            self._has_room.set()

    def __next__(self) -> Any:
        if self.message_cache:
            return super().__next__()
        if self._is_delayed and time.monotonic() - self._looked_at < DELAYED_LOOK_SECONDS:
            time.sleep(self.timeout / 1000)
            return None
        if not self._wants_more:
            self._has_room.wait(self.timeout / 1000)
            self._has_room.clear()
            return None
        self._looked_at = time.monotonic()
        return super().__next__()

    def close(self) -> None:
        with suppress(redis.RedisError):  # the next consumer says it
            self.broker.say_done(self.queue_name)
        super().close()

    @property
    def _wants_more(self) -> bool:
        return bool(self.outstanding_message_count <= self.prefetch // 2)
