"""The ASGI application of a process that only serves: what happens in others reaches its sockets too."""

from __future__ import annotations

from django.conf import settings

from portal.asgi import application
from portal.live import follower

if not settings.NOVELLA_CHANNEL_URL:  # no layer that spans processes: look into the log itself
    follower.follow_the_log()

__all__ = ["application"]
