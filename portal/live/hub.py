"""From committed events to open sockets: the bridge between worker threads and the server's loop."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from dataclasses import asdict
from typing import Any, Protocol

from asgiref.sync import async_to_sync
from channels.layers import InMemoryChannelLayer, get_channel_layer
from redis.exceptions import RedisError

from conductor import events
from conductor.events import Announcement

log = logging.getLogger(__name__)

ALL_PROJECTS = "all"
# Queues of the layer are short and drop what does not fit: a burst leaves as a few messages, each with many events.
LEAST_PAUSE_SECONDS = 0.05

_loop: asyncio.AbstractEventLoop | None = None


class Source(Protocol):
    """Where events come from when it is not the commits of this process alone."""

    def hear(self, announcement: Announcement) -> None:
        """An event was committed in this process."""

    def begin(self) -> None:
        """There is a socket; from now on it calls `pass_on` for every event of every process."""


source: Source | None = None


def listen() -> None:
    """Pass on every event from now on; calling it again changes nothing."""
    events.subscribe(_hear)


def serve_from(loop: asyncio.AbstractEventLoop) -> None:
    """`loop` is where this process's sockets live; the layer's queues belong to it."""
    global _loop
    _loop = loop
    if source is not None:
        source.begin()


def publish_only() -> None:
    """For a process without sockets: events go to the layer that spans processes, from a loop of its own."""
    listen()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="live-publisher", daemon=True).start()
    serve_from(loop)


def topic_group(topic: str) -> str:
    """The channel group of a topic: group names take fewer characters than topics do."""
    return f"topic.{re.sub(r'[^A-Za-z0-9._-]', '.', topic)[:80]}"


def project_group(project_id: str) -> str:
    """The group of everything that happens in a project; ALL_PROJECTS for what happens anywhere."""
    return f"project.{re.sub(r'[^A-Za-z0-9._-]', '.', project_id)[:80]}"


class _Batch:
    """Events that wait to leave together: the newest of each topic and kind, by group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[tuple[str, ...], dict[str, Any]] = {}
        self._is_scheduled = False
        self._left_at = 0.0

    def add(self, announcement: Announcement) -> float | None:
        """Seconds after which to `take`; None when somebody else will."""
        event = asdict(announcement)
        key = (announcement.alias, announcement.topic, announcement.kind, announcement.instance_uuid)
        with self._lock:
            self._events.pop(key, None)
            self._events[key] = event
            if self._is_scheduled:
                return None
            self._is_scheduled = True
            return max(0.0, self._left_at + LEAST_PAUSE_SECONDS - time.monotonic())

    def take(self) -> list[dict[str, Any]]:
        with self._lock:
            events = list(self._events.values())
            self._events.clear()
            self._is_scheduled = False
            self._left_at = time.monotonic()
            return events


class _Outage:
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


_batch = _Batch()
_outage = _Outage()


def _hear(announcement: Announcement) -> None:
    """Called in the thread that committed, which must not wait for a socket."""
    if source is None:
        pass_on(announcement)
    else:
        source.hear(announcement)


def pass_on(announcement: Announcement) -> None:
    """Send an event to all who follow it; returns at once."""
    layer = get_channel_layer()
    is_deaf = _loop is None or _loop.is_closed()
    if layer is None or (is_deaf and isinstance(layer, InMemoryChannelLayer)):
        return  # in memory and no loop: nobody has opened a socket yet
    pause = _batch.add(announcement)
    if pause is None:
        return
    if is_deaf:
        threading.Timer(pause, lambda: async_to_sync(_send)(layer)).start()
    else:
        assert _loop is not None
        asyncio.run_coroutine_threadsafe(_send(layer, pause), _loop)


async def _send(layer: Any, pause: float = 0.0) -> None:
    if pause:
        await asyncio.sleep(pause)
    by_group: dict[str, list[dict[str, Any]]] = {}
    for event in _batch.take():
        for group in _groups_of(event):
            by_group.setdefault(group, []).append(event)
    try:
        for group, events_of_group in by_group.items():
            await layer.group_send(group, {"type": "live.events", "events": events_of_group})
    except (OSError, RedisError) as error:  # sockets look into the log from time to time, and find what was lost
        _outage.begun(error)
    else:
        _outage.over()


def _groups_of(event: dict[str, Any]) -> set[str]:
    """A step of a server's workflow changes what the server's page shows, so it goes there too."""
    groups = {topic_group(event["topic"]), project_group(ALL_PROJECTS)}
    if event["project_id"]:
        groups.add(project_group(event["project_id"]))
    if event["instance_uuid"]:
        groups.add(topic_group(f"server:{event['instance_uuid']}"))
    return groups
