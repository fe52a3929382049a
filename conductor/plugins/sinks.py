"""Makes the notification sink that the operator named, or says what is wrong with the name or its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.notification_sink import NotificationSink
from conductor.plugins.options import plugin_of

FIELD = "NOVELLA_NOTIFICATION_SINKS"


def sink_of(known: Mapping[str, type[NotificationSink]], name: str, options: Any) -> NotificationSink:
    """The sink of that name with its options. Raises Invalid."""
    sink: NotificationSink = plugin_of(known, "sink", name, options, FIELD)
    return sink
