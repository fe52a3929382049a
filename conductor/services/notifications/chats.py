"""Chat messages: one line of text, as incoming webhooks of Slack, Mattermost and similar services take it."""

from __future__ import annotations

from typing import Any

from conductor.core.notification_sink import Notification
from conductor.services.notifications import notices
from conductor.services.notifications.event_types import TEST

LONGEST = 4000
# Users choose names freely, and no name may notify a whole channel, or look like a link to another site.
HARMLESS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b", "]": "]\u200b", "`": "'"})


def as_chat(message: Notification) -> dict[str, Any]:
    """Return the body of a POST: "Create of web-1 failed: … (instance.create.error)"."""
    return {"text": f"{line_of(message)[:LONGEST].translate(HARMLESS)} ({message.event_type})"}


def line_of(message: Notification) -> str:
    """Return a one-line summary of a notification."""
    title = "A test: what you subscribed to arrives here" if message.event_type == TEST else notices.title_of(message)
    return " ".join(title.split())
