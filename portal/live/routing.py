"""Routes of WebSockets."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.urls import path, re_path

from portal.live import hub
from portal.live.consoles import ConsoleConsumer
from portal.live.consumers import LiveConsumer

hub.listen()


class Nowhere(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Ends the handshake with 403, for a path without a socket."""

    async def connect(self) -> None:
        await self.close()


application = SessionMiddlewareStack(
    URLRouter(
        [
            path("live", LiveConsumer.as_asgi()),
            path("console", ConsoleConsumer.as_asgi()),
            path("console/<str:token>", ConsoleConsumer.as_asgi()),
            re_path(r"", Nowhere.as_asgi()),
        ]
    )
)
