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
from portal.live.viewers import ALL_PROJECTS
from portal.request_ids import HEADER, new_request_id

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATHS = re.compile(r"\A/api/(events|workflows/[^/]+/events)/stream\Z")
FOLLOW = "novella-follow"  # in the answer of a page: whose events wake the stream
ALIVE_SECONDS = 15.0  # between signs of life; then the rights are looked at again
LEAST_PAUSE_SECONDS = 0.25
SEND_SECONDS = 30.0  # for a client to take one message
RETRY_MILLISECONDS = 2000
MOST_STREAMS = 500
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
        self.application = application
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not PATHS.match(scope["path"]):
            await self.application(scope, receive, send)
            return
        if self._open >= MOST_STREAMS:
            await _refuse(send)
            return
        self._open += 1
        try:
            await _Stream(self.application, scope, send).run(receive)
        finally:
            self._open -= 1


class _Stream:
    """One client that listens."""

    def __init__(self, application: Application, scope: Scope, send: Send) -> None:
        self.application, self.scope, self._send = application, scope, send
        self._query = dict(parse_qsl(scope["query_string"].decode("latin1"), keep_blank_values=True))
        given = dict(scope["headers"]).get(CURSOR_HEADER, b"").decode("latin1").strip()
        if given:  # a browser that comes back says how far it was
            self._query["after"] = given

    async def run(self, receive: Receive) -> None:
        page = await self._ask()
        if page.status != 200:  # refused, or a mistake: as the API says it
            await self._send({"type": "http.response.start", "status": page.status, "headers": page.headers})
            await self._send({"type": "http.response.body", "body": page.body})
            return
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
        """The page after the cursor. The first one without a cursor says where the log stands."""
        query = urlencode(self._query).encode()
        scope = {**self.scope, "query_string": query, "headers": _bare(self.scope["headers"])}
        self.scope[OF_A_STREAM] = True  # from now on: the first page was asked for
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

        await _to_its_end(self.application(scope, receive, take))
        page = _Page(status, headers, b"".join(pieces))
        if status == 200 and "after" not in self._query:
            self._query["after"] = page.content["cursor"]
        return page


KEPT_HEADERS = frozenset(
    {HEADER.encode(), b"vary", b"access-control-allow-origin", b"access-control-allow-credentials"}
)


async def _to_its_end(work: Awaitable[None]) -> None:
    """Await it; a stream that ends meanwhile ends after it: a worker whose answer nobody takes would wait for ever."""
    answering = asyncio.ensure_future(work)
    try:
        await asyncio.shield(answering)
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


async def _refuse(send: Send) -> None:
    request_id = new_request_id()
    message = f"This process has {MOST_STREAMS} streams open; ask for pages of events, or try again later."
    body = json.dumps(fault_body("own", 503, message, request_id=request_id)).encode()
    lines = {"content-type": "application/json", "content-length": str(len(body)), "retry-after": "30"}
    headers = [(name.encode(), value.encode()) for name, value in {**lines, HEADER: request_id}.items()]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
