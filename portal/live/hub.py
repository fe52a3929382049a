"""From committed events to open sockets: the bridge between worker threads and the server's loop."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import InMemoryChannelLayer, get_channel_layer

from conductor import events
from conductor.events import Announcement

log = logging.getLogger(__name__)

ALL_PROJECTS = "all"
_loop: asyncio.AbstractEventLoop | None = None


def listen() -> None:
    """Pass on every event from now on; calling it again changes nothing."""
    events.subscribe(_pass_on)


def serve_from(loop: asyncio.AbstractEventLoop) -> None:
    """`loop` is where this process's sockets live; the layer's queues belong to it."""
    global _loop
    _loop = loop


def topic_group(topic: str) -> str:
    """The channel group of a topic: group names take fewer characters than topics do."""
    return f"topic.{re.sub(r'[^A-Za-z0-9._-]', '.', topic)[:80]}"


def project_group(project_id: str) -> str:
    """The group of everything that happens in a project; ALL_PROJECTS for what happens anywhere."""
    return f"project.{re.sub(r'[^A-Za-z0-9._-]', '.', project_id)[:80]}"


def _pass_on(announcement: Announcement) -> None:
    """Called in the thread that committed, which must not wait for a socket."""
    layer = get_channel_layer()
    if layer is None:
        return
    if _loop is not None and not _loop.is_closed():
        asyncio.run_coroutine_threadsafe(_send(layer, announcement), _loop)
    elif not isinstance(layer, InMemoryChannelLayer):  # in memory and no loop: nobody has opened a socket yet
        async_to_sync(_send)(layer, announcement)


async def _send(layer: Any, announcement: Announcement) -> None:
    message = {
        "type": "live.event",
        "alias": announcement.alias,
        "cursor": announcement.cursor,
        "topic": announcement.topic,
        "kind": announcement.kind,
        "run_uuid": announcement.run_uuid,
        "instance_uuid": announcement.instance_uuid,
        "project_id": announcement.project_id,
    }
    groups = [topic_group(announcement.topic), project_group(ALL_PROJECTS)]
    groups += [project_group(announcement.project_id)] if announcement.project_id else []
    groups += [topic_group(f"server:{announcement.instance_uuid}")] if _tells_of_server(announcement) else []
    for group in groups:
        await layer.group_send(group, message)


def _tells_of_server(announcement: Announcement) -> bool:
    """A step of a server's workflow changes what the server's page shows."""
    return bool(announcement.instance_uuid) and not announcement.topic.startswith("server:")
