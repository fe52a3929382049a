"""Routes of sockets."""

from __future__ import annotations

from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.urls import path

from portal.live import hub
from portal.live.consoles import ConsoleConsumer
from portal.live.consumers import LiveConsumer

hub.listen()

application = SessionMiddlewareStack(
    URLRouter(
        [
            path("live", LiveConsumer.as_asgi()),
            path("console", ConsoleConsumer.as_asgi()),
            path("console/<str:token>", ConsoleConsumer.as_asgi()),
        ]
    )
)
