"""The ASGI application of a web-only process, whose sockets get events from other processes too."""

from __future__ import annotations

from django.conf import settings

from portal.asgi import application
from portal.live import follower

if not settings.NOVELLA_CHANNEL_URL:  # without a channel layer between processes, poll the log itself
    follower.follow_the_log()

__all__ = ["application"]
