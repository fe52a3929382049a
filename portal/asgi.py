"""The ASGI application: Django as WSGI on a bounded pool of threads, sockets beside it."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from a2wsgi import WSGIMiddleware
from channels.routing import ProtocolTypeRouter
from django.core.wsgi import get_wsgi_application

from portal.request_bodies import WatchedBodies

# A thread keeps its database connections, and no more requests than these run at once.
HTTP_THREADS = 16

_http: Any = get_wsgi_application()

from portal.live.routing import application as _websocket  # noqa: E402 - needs the apps that the line above loads

_pool: Any = WSGIMiddleware(_http, workers=HTTP_THREADS)
_watched = WatchedBodies(_pool)
application = ProtocolTypeRouter({"http": _watched, "websocket": _websocket})
