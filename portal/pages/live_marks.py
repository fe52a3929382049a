"""Data for a page's script: the topic and view to follow, and the position of the event log at rendering."""

from __future__ import annotations

from conductor.services.workflows import event_log


def live_marks(topic: str, view: str) -> dict[str, str]:
    """Read the position before the page's data, so that events meanwhile are shown twice rather than never."""
    return {"live_topic": topic, "live_view": view, "live_cursor": event_log.write_cursor(event_log.here())}
