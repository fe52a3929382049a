"""For browsers behind networks that let no sockets through: a request that is answered when something happens.

A poll follows its topics from the places that it names, as a socket does, for as long as it is held; what happens
between two polls is found in the log. A held poll is a task, and no worker.
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
from portal.live import audiences, consumers
from portal.live.seats import SIGN_IN_AGAIN, Guest
from portal.live.shares import Full, Shares
from portal.live.viewers import SignedOut, Ticket

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/live/poll"
HOLD_SECONDS = 25.0  # proxies give up on a request after half a minute or later
GATHER_SECONDS = 0.05  # what comes with the first news
NO_NEWS = ("current", "behind")  # the pieces come after it
BODY_SECONDS = 10.0  # from the head of a request to the last byte of its body
MOST_POLLS = 500
MOST_OF_A_USER = 32
LONGEST_BODY = 16_384


class Listener(Guest):
    """A guest who is told all at once."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__(ticket, _nowhere, _nowhere)
        self.texts: list[str] = []
        self.code = 0
        self.news = asyncio.Event()

    def tell(self, text: str) -> None:
        self.texts.append(text)
        if not any(f'"kind": "{kind}"' in text[:300] for kind in NO_NEWS):
            self.news.set()

    def end(self, code: int) -> None:
        self.code = self.code or code
        self.news.set()


async def _nowhere(_: Any) -> None:
    """Its messages are taken, not sent."""


@dataclass(frozen=True)
class _Wish:
    """Topics with their views and the places from which they are known."""

    follow: Sequence[tuple[str, str, str]]
    is_first: bool  # answered at once: the page learns that polls get through


class LivePolls:
    """ASGI middleware: answers POST on PATH, and passes on everything else."""

    def __init__(self, application: Application) -> None:
        self.application = application
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
        """Nothing of the body is read, and nothing is counted, before the session is known."""
        cookies = parse_cookie(dict(scope["headers"]).get(b"cookie", b"").decode("latin1"))
        try:
            ticket = await consumers.admitted(dict(scope), cookies.get(settings.SESSION_COOKIE_NAME, ""))
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
    wish = _wish(body)
    if wish is None:
        form = '{"follow": [{"topic", "view", "since"}], "first": true or false}'
        await _answer(send, 400, json.dumps({"error": f"A poll looks like {form}."}))
        return
    guest = Listener(ticket)
    leaving = asyncio.ensure_future(_left(receive))
    waiting = asyncio.ensure_future(_wait(guest, wish))
    try:
        await asyncio.wait({leaving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            code = f', "code": {guest.code}' if guest.code else ""
            await _answer(send, 200, f'{{"messages": [{", ".join(guest.texts)}]{code}}}')
    finally:
        for task in (leaving, waiting):
            task.cancel()
        await asyncio.gather(leaving, waiting, return_exceptions=True)
        audiences.desk().dismiss(guest)


async def _wait(guest: Listener, wish: _Wish) -> None:
    """Until there is news, or the time is over."""
    await audiences.desk().welcome(guest)
    for topic, view, since in wish.follow:
        await consumers.follow(guest, (topic, view), since)
    if not wish.is_first:
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                await guest.news.wait()
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


def _wish(body: bytes) -> _Wish | None:
    try:
        asked: Any = json_text.loads(body.decode()) if len(body) <= LONGEST_BODY else None
        follow = [(str(one["topic"]), str(one["view"]), str(one.get("since") or "")) for one in asked["follow"]]
        return _Wish(follow[: audiences.MOST_TOPICS], bool(asked.get("first")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, text: str, **headers: str) -> None:
    body = text.encode()
    told = {
        "content-type": "application/json",
        "cache-control": "no-store",
        "content-length": str(len(body)),
        **headers,
    }
    lines = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
