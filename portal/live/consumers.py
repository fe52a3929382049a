"""One socket of one browser: what it asks for, and what it is told."""

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
from portal.live import audiences, follower, viewers
from portal.live.seats import BROKEN, MISUNDERSTOOD, NOT_FROM_HERE, SIGN_IN_AGAIN, TOO_MANY, Guest
from portal.live.shares import Full, Shares
from portal.live.viewers import SignedOut, Ticket
from portal.pages.told import told

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 4096
SOCKETS = Shares(most=2000, most_of_a_user=64)
PONG = '{"kind": "pong"}'


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Messages in: {"subscribe": topic, "view", "since"}, {"unsubscribe": topic, "view"}, {"ping": 1}.

    Messages out: {"topic", "view", "kind", "seq", …}.

    Kinds out: `fragments` (html: each with the id of what it replaces), `rows` (id and html of each), `list` (read
    the list again), `reset` (too much was missed: read the page again), `behind` (so many events were `missed`: what
    they changed comes next), `silent` (the cell of what is shown does not answer), `refused` (there is no such topic
    for you).
    """

    _guest: Guest | None = None

    async def connect(self) -> None:
        if not is_from_here(self.scope):
            await self.close(code=NOT_FROM_HERE)
            return
        try:
            ticket = await admitted(self.scope, self.scope["session"].session_key or "")
        except SignedOut:
            await self.accept()  # a browser's script learns the code of an accepted socket only
            await self.close(code=SIGN_IN_AGAIN)
            return
        await self.accept()
        try:
            SOCKETS.take(ticket.user_id)
        except Full:
            await self.close(code=TOO_MANY)
            return
        self._guest = Guest(ticket, self._send_text, self._close)
        await audiences.desk().welcome(self._guest)

    async def disconnect(self, code: int) -> None:
        if self._guest is not None:
            self._guest.gone()
            audiences.desk().dismiss(self._guest)
            SOCKETS.give_back(self._guest.ticket.user_id)
            self._guest = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message, guest = _parse(text_data), self._guest
        if guest is None:
            return
        if message is None:
            guest.end(MISUNDERSTOOD)
        elif "subscribe" in message:
            wanted, since = (str(message["subscribe"]), str(message.get("view", ""))), str(message.get("since", ""))
            await follow(guest, wanted, since)
        elif "ping" in message:
            guest.tell(PONG)
        elif "unsubscribe" in message:
            audiences.desk().leave(guest, str(message["unsubscribe"]), str(message.get("view", "")))

    async def _send_text(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})

    async def _close(self, code: int) -> None:
        await self.close(code=code)


async def admitted(scope: dict[str, Any], session_key: str) -> Ticket:
    """What stands for a browser from now on. Raises SignedOut."""
    language = languages.of_header(_language_of_page(scope))
    return await follower.read(lambda: viewers.admit(session_key, language))


def in_language_of(scope: dict[str, Any], text: str) -> str:
    """A sentence of the server in the language that a page asks for."""
    language = languages.of_header(_language_of_page(scope))
    with translation.override(language):
        return told(text, language)


def _language_of_page(scope: dict[str, Any]) -> str:
    """As the page says that opened the socket; a worker of the browser may ask for another one by itself."""
    said = parse_qs(scope.get("query_string", b"").decode("latin1")).get("language", [""])[0]
    return said or str(dict(scope["headers"]).get(b"accept-language", b"").decode("latin1"))


async def follow(guest: Guest, wanted: tuple[str, str], since: str) -> None:
    """Whatever goes wrong with one topic ends the guest, who comes back."""
    try:
        await audiences.desk().follow(guest, *wanted, since)
    except SignedOut:
        guest.end(SIGN_IN_AGAIN)
    except Exception:
        log.exception("topic cannot be followed: %s", wanted[0][:100])
        with suppress(RuntimeError):
            guest.end(BROKEN)


def is_from_here(scope: dict[str, Any]) -> bool:
    """Whether a page of this portal opens the socket: the origin is the host that was asked, and one of ours."""
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
