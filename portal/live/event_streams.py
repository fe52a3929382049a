"""Events as a stream (`text/event-stream`): pages of the event log, asked for whenever something has happened.

Each page is an ordinary request to the same path, with the same token or session: who may see what, faults and request
ids are the API's, and a right that ends in the middle ends the stream. Between pages a stream holds a task, and no
worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from conductor.events import Announcement
from portal.api.errors import fault_body
from portal.api.rate_limits import OF_A_STREAM
from portal.live import follower
from portal.live.shares import Full, Shares
from portal.live.viewers import ALL_PROJECTS
from portal.request_ids import HEADER, new_request_id

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATHS = re.compile(r"\A/api/(events|workflows/[^/]+/events)/stream\Z")
FOLLOW = "novella-follow"  # in the answer of a page: whose events wake the stream
CALLER = "novella-caller"  # in the same: to whose share the stream counts
ALIVE_SECONDS = 15.0  # between signs of life; then the rights are looked at again
LEAST_PAUSE_SECONDS = 0.25
SEND_SECONDS = 30.0  # for a client to take one message
RETRY_MILLISECONDS = 2000
GATHER_SECONDS = 0.02  # for streams that one event wakes to ask together
MOST_STREAMS = 500
MOST_OF_A_USER = 20
CURSOR_HEADER = b"last-event-id"


@dataclass(frozen=True)
class _Page:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key.decode().lower() == name), "")


class EventStreams:
    """ASGI middleware: answers GET on PATHS as a stream, and passes on everything else."""

    def __init__(self, application: Application) -> None:
        self.shares = Shares(MOST_STREAMS, MOST_OF_A_USER)
        self.pages = _SharedPages(application)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not PATHS.match(scope["path"]):
            await self.pages.application(scope, receive, send)
            return
        stream = _Stream(self.pages, scope, send)
        page = await stream.first_page()
        if page.status != 200:  # refused, or a mistake: as the API says it
            await _answer(send, page)
            return
        try:
            with self.shares.one(page.header(CALLER)):
                await stream.run(receive, page)
        except Full as full:
            await _answer(send, _refusal(full))


class _SharedPages:
    """Pages of the log: streams that ask for the same one with the same proof at the same moment share its request."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._gathering: dict[tuple[Any, ...], asyncio.Future[_Page]] = {}

    async def shared(self, scope: Scope) -> _Page:
        """The page of a request that begins after this call, so that it has all that woke its streams."""
        client = (scope.get("client") or ("",))[0]
        key = (scope["path"], scope["query_string"], tuple(sorted(map(tuple, scope["headers"]))), client)
        asked = self._gathering.get(key)
        if asked is None:
            asked = self._gathering[key] = asyncio.ensure_future(self._gathered(key, scope))
        return await _to_its_end(asked)

    async def _gathered(self, key: tuple[Any, ...], scope: Scope) -> _Page:
        await asyncio.sleep(GATHER_SECONDS)
        del self._gathering[key]  # whoever asks from now on may know more than this request finds
        return await self.ask(scope)

    async def ask(self, scope: Scope) -> _Page:
        status, headers, pieces = 500, [], []
        is_asked = False

        async def receive() -> Message:
            nonlocal is_asked
            if is_asked:
                await asyncio.Future()
            is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def take(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message["headers"])
            else:
                pieces.append(message.get("body", b""))

        await self.application(scope, receive, take)
        return _Page(status, headers, b"".join(pieces))


class _Stream:
    """One client that listens."""

    def __init__(self, pages: _SharedPages, scope: Scope, send: Send) -> None:
        self.pages, self.scope, self._send = pages, scope, send
        self._query = dict(parse_qsl(scope["query_string"].decode("latin1"), keep_blank_values=True))
        given = dict(scope["headers"]).get(CURSOR_HEADER, b"").decode("latin1").strip()
        if given:  # a browser that comes back says how far it was
            self._query["after"] = given

    async def first_page(self) -> _Page:
        """It says whether the client may listen, and without a cursor where the log stands."""
        page = await _to_its_end(asyncio.ensure_future(self.pages.ask(self._request())))
        self.scope[OF_A_STREAM] = True  # from now on: the first page was asked for
        if page.status == 200 and "after" not in self._query:
            self._query["after"] = page.content["cursor"]
        return page

    async def run(self, receive: Receive, page: _Page) -> None:
        await self._begin(page)
        leaving = asyncio.ensure_future(_disconnected(receive))
        telling = asyncio.ensure_future(self._tell(page))
        try:
            await asyncio.wait({leaving, telling}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done() and not leaving.done():
                telling.result()
        except (TimeoutError, OSError):
            return  # it reads nothing any more
        finally:
            for task in (leaving, telling):
                task.cancel()
            await asyncio.gather(leaving, telling, return_exceptions=True)

    async def _begin(self, page: _Page) -> None:
        kept = [(name, value) for name, value in page.headers if name.lower() in KEPT_HEADERS]
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *kept,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(f"retry: {RETRY_MILLISECONDS}\n\n")

    async def _tell(self, page: _Page) -> None:
        """Send what pages say, until one is refused."""
        async with _woken(page.header(FOLLOW)) as wake:
            page = await self._ask()  # what happened between the first page and the first ear
            while page.status == 200:
                content = page.content
                await self._write(self._text_of(content) or ": alive\n\n")
                self._query["after"] = content["cursor"]
                if not content["events"]:
                    await wake()
                await asyncio.sleep(LEAST_PAUSE_SECONDS)
                page = await self._ask()
            await self._write(f"event: end\ndata: {page.body.decode() or page.status}\n\n")
            await self._send({"type": "http.response.body", "body": b""})

    def _text_of(self, content: Mapping[str, Any]) -> str:
        """Each event with the cursor after it; events of several databases, each with a place of its own."""
        places = dict(part.split(":") for part in self._query.get("after", "").split(",") if ":" in part)
        lines = []
        for event in content["events"]:
            alias, number = event["cursor"].split(":")
            places[alias] = number
            cursor = ",".join(f"{name}:{place}" for name, place in sorted(places.items()))
            lines.append(f"id: {cursor}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n")
        return "".join(lines)

    async def _write(self, text: str) -> None:
        message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)

    async def _ask(self) -> _Page:
        """The page after the cursor."""
        return await self.pages.shared(self._request())

    def _request(self) -> Scope:
        query = urlencode(self._query).encode()
        return {**self.scope, "query_string": query, "headers": _bare(self.scope["headers"])}


KEPT_HEADERS = frozenset(
    {HEADER.encode(), b"vary", b"access-control-allow-origin", b"access-control-allow-credentials"}
)


async def _to_its_end(answering: asyncio.Future[_Page]) -> _Page:
    """Await it; a stream that ends meanwhile ends after it: a worker whose answer nobody takes would wait for ever."""
    try:
        return await asyncio.shield(answering)
    except asyncio.CancelledError:
        await asyncio.wait({answering})
        raise


class _Sleeper:
    """Wakes a stream when something of a project happens."""

    def __init__(self, project_id: str) -> None:
        self._project_id = project_id
        self._rung = asyncio.Event()

    def hear(self, events: Sequence[Announcement]) -> None:
        if self._project_id == ALL_PROJECTS or any(event.project_id == self._project_id for event in events):
            self._rung.set()

    def start_anew(self) -> None:
        self._rung.set()

    def cells_changed(self) -> None:
        """A stream tells of events alone."""

    async def wake(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_SECONDS):
                await self._rung.wait()
        self._rung.clear()


@contextlib.asynccontextmanager
async def _woken(follow: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A function that returns when something has happened, or after ALIVE_SECONDS."""
    sleeper, following = _Sleeper(follow), follower.here()
    await following.join(sleeper)
    try:
        yield sleeper.wake
    finally:
        following.leave(sleeper)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _bare(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name not in (CURSOR_HEADER, b"content-length")]


def _refusal(full: Full) -> _Page:
    request_id = new_request_id()
    owner = "You have" if full.is_own else "This process has"
    message = f"{owner} {full.most} streams open; ask for pages of events, or try again later."
    body = json.dumps(fault_body("own", full.status, message, request_id=request_id)).encode()
    lines = {"content-type": "application/json", "content-length": str(len(body)), "retry-after": "30"}
    headers = [(name.encode(), value.encode()) for name, value in {**lines, HEADER: request_id}.items()]
    return _Page(full.status, headers, body)


async def _answer(send: Send, page: _Page) -> None:
    await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
    await send({"type": "http.response.body", "body": page.body})
