"""Events as a stream (`text/event-stream`), made of pages of the event log that are read whenever an event arrives.

Each page is an ordinary request to the same path, with the token or session of the stream: the API handles permissions,
faults and request ids, and a right that ends also ends the stream. Streams with the same audience (a project, or all
projects for administrators) that read the same page share its request and its text; each one's token is still checked.
Between pages a stream occupies a task, and no worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from conductor.core.identifiers import REQUEST_ID_HEADER, new_request_id
from conductor.events import EventNotification
from portal.api.errors import fault_body
from portal.api.rate_limits import OF_A_STREAM
from portal.callers import Callers
from portal.live import follower, stream_rights
from portal.live.shares import Full, Shares
from portal.live.viewers import ALL_PROJECTS
from portal.request_limits import pieces_of

T = TypeVar("T")
Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATHS = re.compile(r"\A/api/(events|workflows/[^/]+/events)/stream\Z")
FOLLOW = "novella-follow"  # header of a page: the audience whose events wake the stream
CALLER = "novella-caller"  # header of a page: the user whose share the stream counts against
ALIVE_SECONDS = 15.0  # between keep-alive messages, when rights are checked again
LEAST_PAUSE_SECONDS = 0.25
SEND_SECONDS = 30.0  # for a client to receive one message
RETRY_MILLISECONDS = 2000
GATHER_SECONDS = 0.02  # to collect streams that the same event wakes
MOST_STREAMS = 500
MOST_OF_A_USER = 20
REFUSED = (401, 403)
CURSOR_HEADER = b"last-event-id"


@dataclass(frozen=True)
class _Page:
    """A response of the API; a page of events is parsed and rendered once for all streams."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    after: str = ""  # the cursor of the request

    @cached_property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @cached_property
    def text(self) -> bytes:
        """Each event with the cursor after it; a cursor has a position for each database."""
        places = _places(self.after)
        lines = []
        for event in self.content["events"]:
            alias, number = event["cursor"].split(":")
            places[alias] = number
            cursor = ",".join(f"{name}:{place}" for name, place in sorted(places.items()))
            lines.append(f"id: {cursor}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n")
        return "".join(lines).encode()

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key.decode().lower() == name), "")


class EventStreams:
    """ASGI middleware: answers GET on PATHS as a stream, and passes on all other requests."""

    def __init__(self, application: Application, callers: Callers | None = None) -> None:
        self.callers = callers or Callers()
        self.shares = Shares(MOST_STREAMS, MOST_OF_A_USER)
        self.pages = _SharedPages(application)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not PATHS.match(scope["path"]):
            await self.pages.application(scope, receive, send)
            return
        try:
            await self.shares.require(self.callers.known(scope))
            stream = _Stream(self.pages, scope, send)
            page = await stream.first_page()
            if page.status != 200:  # an error, as the API reports it
                await _answer(send, page)
                return
            with self.shares.one(page.header(CALLER)):
                await stream.run(receive, page)
        except Full as full:
            await _answer(send, _refusal(full))


@dataclass(eq=False)
class _Gathering:
    """Streams that wait for the same page, by token; and the permitted tokens, with the page."""

    scopes: dict[bytes, Scope] = field(default_factory=dict)
    answer: asyncio.Future[tuple[frozenset[bytes], _Page | None]] | None = None


class _SharedPages:
    """Pages of the log, shared by streams with the same audience that request the same page at the same time."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._gathering: dict[tuple[Any, ...], _Gathering] = {}

    async def shared(self, scope: Scope, channel: str) -> _Page:
        """Return the page of a request that begins after this call, so that it has the event that woke the stream."""
        token = stream_rights.token_of(scope)
        # Only the request itself checks a session, so its page is shared only by streams with the same headers.
        whose = channel if token else (tuple(sorted(map(tuple, scope["headers"]))), (scope.get("client") or ("",))[0])
        key = (scope["path"], scope["query_string"], whose)
        gathering = self._gathering.setdefault(key, _Gathering())
        gathering.scopes.setdefault(token, scope)
        if gathering.answer is None:
            gathering.answer = asyncio.ensure_future(self._gathered(key, channel))
        permitted, page = await _to_its_end(gathering.answer)
        if page is not None and token in permitted and page.status not in REFUSED:
            return page
        return await self.ask(scope)  # an answer for this stream only

    async def _gathered(self, key: tuple[Any, ...], channel: str) -> tuple[frozenset[bytes], _Page | None]:
        await asyncio.sleep(GATHER_SECONDS)
        scopes = self._gathering.pop(key).scopes  # later streams may know of newer events: they ask again
        permitted = await follower.read(lambda: stream_rights.permitted(scopes, channel))
        first = next((scope for token, scope in scopes.items() if token in permitted), None)
        return permitted, await self.ask(first) if first is not None else None

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
        after = dict(parse_qsl(scope["query_string"].decode("latin1"))).get("after", "")
        return _Page(status, headers, b"".join(pieces), after)


class _Stream:
    """The stream of one client."""

    def __init__(self, pages: _SharedPages, scope: Scope, send: Send) -> None:
        self.pages, self.scope, self._send = pages, scope, send
        self._query = dict(parse_qsl(scope["query_string"].decode("latin1"), keep_blank_values=True))
        given = dict(scope["headers"]).get(CURSOR_HEADER, b"").decode("latin1").strip()
        if given:  # a browser that reconnects sends its cursor
            self._query["after"] = given

    async def first_page(self) -> _Page:
        """Return the first page: it checks permission, and gives the current cursor if the client sent none."""
        page = await _to_its_end(asyncio.ensure_future(self.pages.ask(self._request())))
        self.scope[OF_A_STREAM] = True  # later pages are not the client's requests
        if page.status == 200 and "after" not in self._query:
            self._query["after"] = page.content["cursor"]
        return page

    async def run(self, receive: Receive, page: _Page) -> None:
        await self._begin(page)
        leaving = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(self._send_news(page))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not leaving.done():
                sending.result()
        except (TimeoutError, OSError):
            return  # the client reads no more
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)

    async def _begin(self, page: _Page) -> None:
        kept = [(name, value) for name, value in page.headers if name.lower() in KEPT_HEADERS]
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *kept,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())

    async def _send_news(self, page: _Page) -> None:
        """Send pages until one is refused."""
        channel = page.header(FOLLOW)
        async with _woken(channel) as sleeper:
            page = await self._ask(channel)  # events between the first page and the subscription
            while page.status == 200:
                await self._write(page.text or b": alive\n\n")
                self._query["after"] = page.content["cursor"]
                if sleeper.has_sent_all(page):
                    await sleeper.wake()
                await asyncio.sleep(LEAST_PAUSE_SECONDS)
                page = await self._ask(channel)
            await self._write(f"event: end\ndata: {page.body.decode() or page.status}\n\n".encode())
            await self._send({"type": "http.response.body", "body": b""})

    async def _write(self, text: bytes) -> None:
        message = {"type": "http.response.body", "body": text, "more_body": True}
        for piece in pieces_of(message):
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(piece)

    async def _ask(self, channel: str) -> _Page:
        """Return the page after the cursor."""
        return await self.pages.shared(self._request(), channel)

    def _request(self) -> Scope:
        query = urlencode(self._query).encode()
        return {**self.scope, "query_string": query, "headers": _bare(self.scope["headers"])}


def _places(cursor: str) -> dict[str, str]:
    """Parse `cell1:40,default:12` into positions by database."""
    return dict(part.split(":") for part in cursor.split(",") if ":" in part)


KEPT_HEADERS = frozenset(
    {REQUEST_ID_HEADER.encode(), b"vary", b"access-control-allow-origin", b"access-control-allow-credentials"}
)


async def _to_its_end(answering: asyncio.Future[T]) -> T:
    """Await a request to its end, also when cancelled: its worker would block on a response without a reader."""
    try:
        return await asyncio.shield(answering)
    except asyncio.CancelledError:
        await asyncio.wait({answering})
        raise


class _Sleeper:
    """Wakes a stream on events of its audience, and tracks the newest of them."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._rung = asyncio.Event()
        self._heard: dict[str, int] = {}  # by database, since the last empty page
        self._is_caught_up = False

    def hear(self, events: Sequence[EventNotification]) -> None:
        mine = [one for one in events if self._channel in (ALL_PROJECTS, one.project_id)]
        for one in mine:
            self._heard[one.alias] = max(one.cursor, self._heard.get(one.alias, 0))
        if mine:
            self._rung.set()

    def start_anew(self) -> None:
        self._is_caught_up = False
        self._rung.set()

    def cells_changed(self) -> None:
        """Do nothing: a stream has only events."""

    def has_sent_all(self, page: _Page) -> bool:
        """Return whether nothing follows this page: it is empty, or covers all events since the last empty one."""
        if not page.content["events"]:
            self._is_caught_up = True
            return True
        reached = {alias: int(number) for alias, number in _places(page.content["cursor"]).items()}
        return self._is_caught_up and all(reached.get(alias, 0) >= number for alias, number in self._heard.items())

    async def wake(self) -> None:
        """Wait for an event, or for ALIVE_SECONDS."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_SECONDS):
                await self._rung.wait()
        self._rung.clear()


@contextlib.asynccontextmanager
async def _woken(channel: str) -> AsyncIterator[_Sleeper]:
    """Subscribe a sleeper to the follower for the block."""
    sleeper, following = _Sleeper(channel), follower.here()
    await following.join(sleeper)
    try:
        yield sleeper
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
    body = json.dumps(fault_body("novella", full.status, message, request_id=request_id)).encode()
    lines = {"content-type": "application/json", "content-length": str(len(body)), "retry-after": "30"}
    headers = [(name.encode(), value.encode()) for name, value in {**lines, REQUEST_ID_HEADER: request_id}.items()]
    return _Page(full.status, headers, body)


async def _answer(send: Send, page: _Page) -> None:
    await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
    await send({"type": "http.response.body", "body": page.body})
