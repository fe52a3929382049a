"""Long polling, for browsers behind networks that block WebSockets: a request is answered when an event arrives.

A poll follows its topics from the positions that it gives, like a socket, while it is held; the log has the events
between two polls. A held poll occupies a task, and no worker.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import parse_cookie

from conductor.core import json_text
from portal.callers import Caller, Callers, share_of
from portal.live import channels, consumers
from portal.live.connections import SIGN_IN_AGAIN, Connection
from portal.live.shares import Full, Shares
from portal.live.viewers import SignedOut, Ticket

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/live/poll"
HOLD_SECONDS = 25.0  # proxies time out after half a minute or more
GATHER_SECONDS = 0.05  # to collect messages that follow the first
NO_NEWS = ("current", "behind")  # more messages follow these
BODY_SECONDS = 10.0  # from the head of a request to the last byte of its body
MOST_POLLS = 500
MOST_OF_A_USER = 32
LONGEST_BODY = 16_384


class PollListener(Connection):
    """A connection that collects its messages for one response."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__(ticket, _nowhere, _nowhere)
        self.texts: list[str] = []
        self.code = 0
        self.news = asyncio.Event()

    def deliver(self, text: str) -> None:
        self.texts.append(text)
        if not any(f'"kind": "{kind}"' in text[:300] for kind in NO_NEWS):
            self.news.set()

    def end(self, code: int) -> None:
        self.code = self.code or code
        self.news.set()


async def _nowhere(_: Any) -> None:
    """Send nothing: the messages are collected."""


@dataclass(frozen=True)
class _PollRequest:
    """Topics with their views, and the positions up to which the page is current."""

    follow: Sequence[tuple[str, str, str]]
    is_first: bool  # answered at once, so that the page learns that polls work


class LivePolls:
    """ASGI middleware: answers POST on PATH, and passes on all other requests."""

    def __init__(self, application: Application, callers: Callers | None = None) -> None:
        self.application = application
        self.callers = callers or Callers()
        self.shares = Shares(MOST_POLLS, MOST_OF_A_USER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != PATH:
            await self.application(scope, receive, send)
            return
        if scope["method"] != "POST":
            await _answer(send, 405, '{"error": "Polls are sent with POST."}', allow="POST")
        elif not consumers.is_from_here(dict(scope)):
            await _answer(send, 403, '{"error": "Polls are for pages of this host."}')
        else:
            await self._admit(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the session before the body is read and the poll is counted."""
        cookies = parse_cookie(dict(scope["headers"]).get(b"cookie", b"").decode("latin1"))
        try:
            await self.shares.require(self.callers.known(scope))
            ticket = await consumers.admitted(dict(scope), cookies.get(settings.SESSION_COOKIE_NAME, ""))
            self.callers.remember(scope, Caller(share_of(ticket.project_id, ticket.user_id), ticket.user_id))
            with self.shares.one(ticket.user_id):
                await _hold(ticket, receive, send)
        except SignedOut:
            await _answer(send, 200, json.dumps({"messages": [], "code": SIGN_IN_AGAIN}))
        except Full as full:
            of_whom = "Your pages" if full.is_own else "The pages of all users"
            error = json.dumps(
                {"error": f"{of_whom} wait here {full.most} times already: close some, or try again later."}
            )
            await _answer(send, full.status, error, **{"retry-after": "15"})


async def _hold(ticket: Ticket, receive: Receive, send: Send) -> None:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _body(receive)
    except TimeoutError:
        error = json.dumps({"error": f"The request body was not there after {BODY_SECONDS:g} seconds."})
        await _answer(send, 408, error, connection="close")
        return
    requested = _requested(body)
    if requested is None:
        form = '{"follow": [{"topic", "view", "since"}], "first": true or false}'
        await _answer(send, 400, json.dumps({"error": f"A poll looks like {form}."}))
        return
    live_connection = PollListener(ticket)
    leaving = asyncio.ensure_future(_left(receive))
    waiting = asyncio.ensure_future(_wait(live_connection, requested))
    try:
        await asyncio.wait({leaving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            code = f', "code": {live_connection.code}' if live_connection.code else ""
            await _answer(send, 200, f'{{"messages": [{", ".join(live_connection.texts)}]{code}}}')
    finally:
        for task in (leaving, waiting):
            task.cancel()
        await asyncio.gather(leaving, waiting, return_exceptions=True)
        channels.live_hub().dismiss(live_connection)


async def _wait(live_connection: PollListener, requested: _PollRequest) -> None:
    """Wait for a message, or until the time is over."""
    await channels.live_hub().welcome(live_connection)
    for topic, view, since in requested.follow:
        await consumers.follow(live_connection, (topic, view), since)
    if not requested.is_first:
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                await live_connection.news.wait()
        except TimeoutError:
            return
    await asyncio.sleep(GATHER_SECONDS)


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) <= LONGEST_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


def _requested(body: bytes) -> _PollRequest | None:
    try:
        requested: Any = json_text.loads(body.decode()) if len(body) <= LONGEST_BODY else None
        follow = [(str(one["topic"]), str(one["view"]), str(one.get("since") or "")) for one in requested["follow"]]
        return _PollRequest(follow[: channels.MOST_TOPICS], bool(requested.get("first")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, text: str, **headers: str) -> None:
    body = text.encode()
    values = {
        "content-type": "application/json",
        "cache-control": "no-store",
        "content-length": str(len(body)),
        **headers,
    }
    lines = [(name.encode(), value.encode()) for name, value in values.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
