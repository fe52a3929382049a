"""The WebSocket of live pages."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils import translation

from conductor.core import json_text
from portal import languages
from portal.live import channels, follower, viewers
from portal.live.connections import BROKEN, MISUNDERSTOOD, NOT_FROM_HERE, SIGN_IN_AGAIN, TOO_MANY, Connection
from portal.live.shares import Full, Shares
from portal.live.viewers import SignedOut, Ticket
from portal.pages.wording import translated

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 4096
SOCKETS = Shares(most=2000, most_of_a_user=64)
PONG = '{"kind": "pong"}'


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Messages in: {"subscribe": topic, "view", "since"}, {"unsubscribe": topic, "view"}, {"ping": 1}.

    Messages out: {"topic", "view", "kind", "seq", …}.

    Kinds out: `fragments` (html: each with the id of the element that it replaces), `rows` (id and html of each),
    `list` (reload the list), `reset` (too much was missed: reload the page), `behind` (number of `missed` events, whose
    changes follow), `unresponsive` (the cell does not answer), `refused` (unknown or forbidden topic).
    """

    _connection: Connection | None = None

    async def connect(self) -> None:
        if not is_from_here(self.scope):
            await self.close(code=NOT_FROM_HERE)
            return
        try:
            ticket = await admitted(self.scope, self.scope["session"].session_key or "")
        except SignedOut:
            await self.accept()  # scripts read the close code only of an accepted socket
            await self.close(code=SIGN_IN_AGAIN)
            return
        await self.accept()
        try:
            SOCKETS.take(ticket.user_id)
        except Full:
            await self.close(code=TOO_MANY)
            return
        self._connection = Connection(ticket, self._send_text, self._close)
        await channels.live_hub().welcome(self._connection)

    async def disconnect(self, code: int) -> None:
        if self._connection is not None:
            self._connection.gone()
            channels.live_hub().dismiss(self._connection)
            SOCKETS.give_back(self._connection.ticket.user_id)
            self._connection = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message, connection = _parse(text_data), self._connection
        if connection is None:
            return
        if message is None:
            connection.end(MISUNDERSTOOD)
        elif "subscribe" in message:
            wanted, since = (str(message["subscribe"]), str(message.get("view", ""))), str(message.get("since", ""))
            await follow(connection, wanted, since)
        elif "ping" in message:
            connection.deliver(PONG)
        elif "unsubscribe" in message:
            channels.live_hub().leave(connection, str(message["unsubscribe"]), str(message.get("view", "")))

    async def _send_text(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})

    async def _close(self, code: int) -> None:
        await self.close(code=code)


async def admitted(scope: dict[str, Any], session_key: str) -> Ticket:
    """Return the ticket of a browser's session. Raises SignedOut."""
    language = languages.of_header(_language_of_page(scope))
    return await follower.read(lambda: viewers.admit(session_key, language))


def in_language_of(scope: dict[str, Any], text: str) -> str:
    """Translate a message into the page's language."""
    language = languages.of_header(_language_of_page(scope))
    with translation.override(language):
        return translated(text)


def _language_of_page(scope: dict[str, Any]) -> str:
    """Return the language that the page gives, else that of the browser, whose worker may send another header."""
    reported = parse_qs(scope.get("query_string", b"").decode("latin1")).get("language", [""])[0]
    return reported or str(dict(scope["headers"]).get(b"accept-language", b"").decode("latin1"))


async def follow(connection: Connection, wanted: tuple[str, str], since: str) -> None:
    """Subscribe; any error ends the connection, and the browser reconnects."""
    try:
        await channels.live_hub().follow(connection, *wanted, since)
    except SignedOut:
        connection.end(SIGN_IN_AGAIN)
    except Exception:
        log.exception("topic cannot be followed: %s", wanted[0][:100])
        with suppress(RuntimeError):
            connection.end(BROKEN)


def is_from_here(scope: dict[str, Any]) -> bool:
    """Whether a page of this portal opens the socket: the origin is the requested host, and an allowed one."""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin1").lower()
    origin = urlsplit(headers.get(b"origin", b"").decode("latin1").lower())
    domain, _ = split_domain_port(host)
    return bool(host) and origin.netloc == host and validate_host(domain, settings.ALLOWED_HOSTS or ["localhost"])


def _parse(text: str | None) -> dict[str, Any] | None:
    if not text or len(text) > LONGEST_MESSAGE:
        return None
    try:
        message = json_text.loads(text)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
