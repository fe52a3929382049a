"""The ASGI application: Django as WSGI on a bounded thread pool, WebSockets beside it."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from a2wsgi import WSGIMiddleware
from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.core.wsgi import get_wsgi_application

from conductor.core import garbage
from portal.callers import Callers, measured
from portal.environment import current
from portal.private_files import protect
from portal.request_bodies import WatchedBodies

protect(current())
_http: Any = get_wsgi_application()

# The following imports need the apps that the line above loads.
from portal.live.event_streams import EventStreams  # noqa: E402
from portal.live.polls import LivePolls  # noqa: E402
from portal.live.routing import application as _websocket  # noqa: E402
from portal.public_address import PublicAddress  # noqa: E402
from portal.request_limits import RequestLimitsMiddleware, TransferLimits  # noqa: E402

# Each thread keeps its database connections, and at most this many requests run at once. Streams of image data and the
# liveness check have threads of their own.
HTTP_THREADS = 16
EXTRA_THREADS = settings.NOVELLA_IMAGE_TRANSFERS + 1

_pool: Any = WSGIMiddleware(measured(_http), workers=HTTP_THREADS + EXTRA_THREADS)
_watched = WatchedBodies(_pool)
_pace = TransferLimits(
    answer=settings.NOVELLA_REQUEST_SECONDS,
    rate=settings.NOVELLA_TRANSFER_BYTES_PER_SECOND,
    total=settings.NOVELLA_TRANSFER_SECONDS,
)
_callers = Callers()
_limited = RequestLimitsMiddleware(
    _watched, workers=HTTP_THREADS, streams=settings.NOVELLA_IMAGE_TRANSFERS, pace=_pace, callers=_callers
)
application = PublicAddress(
    ProtocolTypeRouter({"http": LivePolls(EventStreams(_limited, _callers), _callers), "websocket": _websocket}),
    allowed_hosts=settings.ALLOWED_HOSTS,
    trusted_proxies=settings.NOVELLA_TRUSTED_PROXIES,
    public_url=settings.NOVELLA_PUBLIC_URL,
)

garbage.settle()
