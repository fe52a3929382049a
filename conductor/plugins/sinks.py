"""Creates the notification sink that the operator named, and runs its operations in its worker: open, send, close."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.plugins.options import plugin_of

FIELD = "NOVELLA_NOTIFICATION_SINKS"


def sink_of(known: Mapping[str, type[NotificationSink]], name: str, options: Any) -> NotificationSink:
    """Return the sink of that name with its options. Raises Invalid."""
    sink: NotificationSink = plugin_of(known, "sink", name, options, FIELD)
    return sink


# Open connections of sinks in this process, by the sink's name. A worker has those of one sink.
_open: dict[str, tuple[AbstractContextManager[Send], Send]] = {}


def open_(sink: NotificationSink) -> None:
    """Let the sink open a connection. An open one is closed first."""
    if sink.name in _open:
        close(sink)
    manager = sink.open()
    if not isinstance(manager, AbstractContextManager):
        raise SinkFailed(f"opened {type(manager).__name__}, which is no context manager")
    _open[sink.name] = manager, manager.__enter__()


def send(sink: NotificationSink, message: Notification) -> str:
    """Send a message over the open connection. Return the sink's report."""
    if sink.name not in _open:
        raise SinkFailed("its connection ended with its process")
    answer = _open[sink.name][1](message)
    if not isinstance(answer, str):
        raise SinkFailed(f"returned {type(answer).__name__} instead of a text")
    return answer


def close(sink: NotificationSink) -> None:
    manager, _ = _open.pop(sink.name)
    manager.__exit__(None, None, None)
