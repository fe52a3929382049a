"""What a page tells its script: which topic it follows, as what view, and where the log stood when it was made."""

from __future__ import annotations

from conductor.services import event_log


def live_marks(topic: str, view: str) -> dict[str, str]:
    """Read before the page's data is: what happens meanwhile is then shown twice rather than never."""
    return {"live_topic": topic, "live_view": view, "live_cursor": event_log.write_cursor(event_log.here())}
