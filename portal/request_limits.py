"""Buffers requests and responses in front of the worker threads, so that slow clients occupy no thread.

    client ──body, bounded──▶ RequestLimitsMiddleware ──whole──▶ worker ──▶ buffer ──at the client's pace──▶ client

A client that sends or reads slowly occupies a task and some memory, never a worker. Both directions have a sum and
shares (portal/fair_share.py): each piece of a body is counted when it arrives, and a response before its client gets
its first byte. Image data are too large for that: they stream through a worker, at least as fast as `TransferLimits`
demands; portal/transfers.py shares these workers between projects.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from conductor.core.identifiers import REQUEST_ID_HEADER, new_request_id
from portal.api.errors import fault_body
from portal.api.roots import service_of
from portal.callers import Caller, Callers
from portal.fair_share import Busy, FairQueue, MemoryShares, Reservation
from portal.request_bodies import STREAMS, most_bytes
from portal.request_ids import COMPUTE_HEADER

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_SECONDS = 30.0  # from the first byte of a body to its last
IDLE_SECONDS = 30.0  # between two pieces of image data, and while a client reads nothing
WAIT_SECONDS = 20.0  # for a worker
AT_ONCE = 4  # requests that compute concurrently
MOST_WAITING = 2048  # a waiting request costs a task and its body
MOST_BUFFERED = 4 << 20  # of one response, before its worker waits for the client
MOST_BODIES = 128 << 20  # of all bodies in memory
MOST_RESPONSES = 128 << 20  # of all responses that clients have not read yet
PIECE = 64 << 10  # bytes that are sent at a time
TOO_LARGE = 413
TOO_SLOW = 408
MOST_PASSED_OVER = 32 << 20


class RequestRefused(Exception):
    """The request is refused."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class _ClientDisconnected(Exception):
    """The client has disconnected."""


@dataclass(frozen=True)
class TransferLimits:
    """Time limits in seconds, and the minimum rate of image data."""

    body: float = BODY_SECONDS
    idle: float = IDLE_SECONDS
    wait: float = WAIT_SECONDS
    answer: float = 60.0
    linger: float = 2.0  # to read the rest of a body that was refused as too large
    window: float = 30.0  # image data may be slower than `rate` for so long; only waiting for the client counts
    rate: float = 16384.0  # minimum bytes of image data per second; 0 for no minimum
    total: float = 86400.0  # for all data of an image


class RequestLimitsMiddleware:
    """ASGI middleware around an application that occupies a thread from the first byte of a request to the last."""

    def __init__(
        self,
        application: Application,
        *,
        workers: int,
        streams: int = 4,
        pace: TransferLimits = TransferLimits(),
        callers: Callers | None = None,
    ) -> None:
        self.application = application
        self.pace = pace
        self.callers = callers or Callers()
        self._workers = FairQueue(workers, AT_ONCE, MOST_WAITING)
        self._streams = FairQueue(streams, streams, MOST_WAITING)
        self.bodies, self.responses = MemoryShares(MOST_BODIES), MemoryShares(MOST_RESPONSES)
        self._late: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":  # liveness is answered however busy the process is
            await self.application(scope, receive, send)
            return
        is_stream = bool(STREAMS.match(scope["path"]))
        caller = self.callers.of(scope)
        scope = self.callers.opened(scope)
        held, unread = self.bodies.reservation(caller), self.responses.reservation(caller)
        try:
            _require_host(scope)
            body = b"" if is_stream else await self._body(scope, held, receive)
            answer = _ResponseSender(send, self.pace, None if is_stream else unread)
            if is_stream:  # its response begins when the whole body has arrived
                upload = _Upload(receive, self.pace, answer)
                await self._serve(self._streams, caller, scope, upload.receive, answer)
                upload.check()
            else:
                whole = _with_length(scope, len(body))
                await self._serve(self._workers, caller, whole, _replayed(body, receive), answer, self.pace.answer)
        except RequestRefused as refused:
            await refuse(scope, send, refused)
            if refused.status == TOO_LARGE:
                await _pass_over(receive, self.pace.linger)
            await send({"type": "http.response.body", "body": b""})
        except _ClientDisconnected:
            return
        finally:
            held.release()
            unread.release()

    async def _body(self, scope: Scope, held: Reservation, receive: Receive) -> bytes:
        """Read the whole body; each piece is reserved before the next is read.

        Raises RequestRefused for one that is too large or too slow or has no room, _Gone if the client disconnects.
        """
        most = most_bytes(scope["path"])
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self.pace.body):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientDisconnected
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise _too_large(most)
                    if not held.take(len(pieces[-1])):
                        raise _busy()
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestRefused(408, f"The request body was not there after {self.pace.body:g} seconds.") from None
        return b"".join(pieces)

    async def _serve(
        self,
        queue: FairQueue,
        caller: Caller,
        scope: Scope,
        receive: Receive,
        answer: _ResponseSender,
        seconds: float | None = None,
    ) -> None:
        """Serve the request.

        Raises RequestRefused if no worker is free in time, or if the response does not begin within `seconds`.
        """
        try:
            turn = await queue.turn(caller.share, self.pace.wait, member=caller.member)
        except Busy:
            raise _busy() from None
        work = asyncio.ensure_future(self.application(scope, receive, answer.take))
        work.add_done_callback(lambda _: turn.end(self.callers.learn(scope)))
        try:
            if seconds is not None:
                await _begun(work, answer, seconds)
            await answer.deliver(work)
        except BaseException:  # the client does not wait any more
            answer.abandon()  # the thread cannot be stopped: it continues, and its response is dropped
            self._late.add(work)  # keeps a reference, so that the task is not garbage-collected
            work.add_done_callback(self._late.discard)
            work.add_done_callback(_heard)
            raise
        await work


class _Meter:
    """Checks the rate of image data; counts only the time spent waiting for the client."""

    def __init__(self, pace: TransferLimits) -> None:
        self._pace = pace
        self._ends = time.monotonic() + pace.total
        self._seconds, self._bytes = 0.0, 0

    @property
    def patience(self) -> float:
        """Seconds that the next piece may take."""
        return max(0.0, min(self._pace.idle, self._ends - time.monotonic()))

    def count(self, seconds: float, size: int) -> bool:
        """Return False if a window has passed with too few bytes."""
        self._seconds += seconds
        self._bytes += size
        if self._seconds < self._pace.window:
            return True
        is_enough = self._bytes >= self._pace.rate * self._seconds
        self._seconds, self._bytes = 0.0, 0
        return is_enough


class _Upload:
    """Image data on their way to a worker. A client that is too slow is disconnected and answered 408."""

    def __init__(self, receive: Receive, pace: TransferLimits, answer: _ResponseSender) -> None:
        self._receive, self._answer, self._pace = receive, answer, pace
        self._meter = _Meter(pace)
        self._is_late = self._is_whole = False

    async def receive(self) -> Message:
        if self._is_late:
            return {"type": "http.disconnect"}
        if self._is_whole:  # only a disconnect can follow
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._meter.patience):
                message = await self._receive()
        except TimeoutError:
            return self._cut_off()
        seconds = time.monotonic() - began
        self._is_whole = not message.get("more_body", False)
        is_enough = self._meter.count(seconds, len(message.get("body", b"")))
        return message if is_enough or self._is_whole else self._cut_off()

    def check(self) -> None:
        """Raises RequestRefused when the client was too slow."""
        if self._is_late:
            raise RequestRefused(
                TOO_SLOW,
                f"The data came too slowly: {self._pace.rate:g} bytes per second are needed over {self._pace.window:g} "
                f"seconds, a piece every {self._pace.idle:g} seconds and all of them within {self._pace.total:g}.",
            )

    def _cut_off(self) -> Message:
        """Report a disconnect to the worker, which rolls back; its response is dropped."""
        self._is_late = True
        self._answer.abandon()
        return {"type": "http.disconnect"}


class _ResponseSender:
    """A worker's response on its way to a client that may be slow.

    `unread` counts its bytes; None for image data, of which only MOST_BUFFERED wait for a client at a time.
    """

    def __init__(self, send: Send, pace: TransferLimits, unread: Reservation | None) -> None:
        self.begun = asyncio.Event()
        self._send, self._idle_seconds = send, pace.idle
        self._unread = unread
        self._meter = _Meter(pace) if unread is None else None
        self._head: Message | None = None  # held back until the first piece has room
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self._size = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_dead = False

    async def take(self, message: Message) -> None:
        """Queue a message; waits only while too much is queued. A response without room is refused, or cut off."""
        if self._unread is not None and message["type"] == "http.response.start":
            self._head = message
            return
        await self._has_room.wait()
        if self._is_dead:
            return
        size = len(message.get("body", b""))
        if self._unread is not None and size > PIECE and not self._unread.take(size):
            self._messages.put_nowait(_busy() if self._head is not None else _ClientDisconnected())
            self.begun.set()
            self.abandon()
            return
        if self._head is not None:
            self._messages.put_nowait(self._head)
            self._head = None
        self.begun.set()
        self._size += size
        if self._size > MOST_BUFFERED:
            self._has_room.clear()
        self._messages.put_nowait(message)

    def abandon(self) -> None:
        """Let the worker finish; its response is dropped."""
        self._is_dead = True
        self._has_room.set()

    async def deliver(self, work: asyncio.Future[None]) -> None:
        """Send until the last piece is sent, or the work ends without one."""
        is_last = False
        while not is_last:
            message = await self._next(work)
            if message is None:
                return
            if isinstance(message, Exception):
                raise message
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            try:
                for piece in pieces_of(message):
                    await self._pass_on(piece)
            except (TimeoutError, OSError):
                raise _ClientDisconnected from None
            size = len(message.get("body", b""))
            if self._unread is not None and size > PIECE:
                self._unread.release(size)
            self._size -= size
            if self._size <= MOST_BUFFERED:
                self._has_room.set()

    async def _pass_on(self, message: Message) -> None:
        """Send the message. Raises TimeoutError for a client that reads too slowly."""
        began = time.monotonic()
        async with asyncio.timeout(self._meter.patience if self._meter else self._idle_seconds):
            await self._send(message)
        size = len(message.get("body", b""))
        if self._meter and not self._meter.count(time.monotonic() - began, size):
            raise TimeoutError

    async def _next(self, work: asyncio.Future[None]) -> Message | Exception | None:
        if not self._messages.empty():
            return self._messages.get_nowait()
        if work.done():
            return None
        getting = asyncio.ensure_future(self._messages.get())
        either: set[asyncio.Future[Any]] = {getting, work}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        return self._messages.get_nowait() if not self._messages.empty() else None


def pieces_of(message: Message) -> Iterator[Message]:
    """Yield a message of a response in parts of up to PIECE bytes.

    An ASGI server waits for a client that does not read before it takes the next part; it would take any message whole.
    """
    body = message.get("body", b"")
    if len(body) <= PIECE:
        yield message
        return
    for begin in range(0, len(body), PIECE):
        is_last = begin + PIECE >= len(body)
        more = message.get("more_body", False) or not is_last
        yield {**message, "body": body[begin : begin + PIECE], "more_body": more}


async def _begun(work: asyncio.Future[None], answer: _ResponseSender, seconds: float) -> None:
    """Wait for the response to begin. Raises RequestRefused after `seconds`."""
    begun: asyncio.Future[Any] = asyncio.ensure_future(answer.begun.wait())
    try:
        either: set[asyncio.Future[Any]] = {work, begun}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        begun.cancel()
    if not work.done() and not answer.begun.is_set():
        late = f"There was no answer after {seconds:g} seconds; what was asked for may still be carried out."
        raise RequestRefused(503, late)


def _heard(work: asyncio.Future[None]) -> None:
    """Log the error of a request that no client waits for any more."""
    if not work.cancelled() and work.exception() is not None:
        log.error("a request failed whose client had gone", exc_info=work.exception())


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def replayed() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _with_length(scope: Scope, size: int) -> Scope:
    """Replace `transfer-encoding` by the length of the buffered body, for code that reads only a body with a length."""
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return scope
    others = [pair for pair in scope["headers"] if pair[0] not in (b"transfer-encoding", b"content-length")]
    return {**scope, "headers": [*others, (b"content-length", str(size).encode())]}


def _require_host(scope: Scope) -> None:
    """Raises RequestRefused unless an HTTP/1.1 request names exactly one host, which links in the response need."""
    if scope.get("http_version") == "1.1" and sum(name == b"host" for name, _ in scope["headers"]) != 1:
        raise RequestRefused(400, "A request of HTTP/1.1 has one header Host: name the host that it is sent to.")


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(TOO_LARGE, f"The request body is larger than {most} bytes.")


def _busy() -> RequestRefused:
    return RequestRefused(503, "Too many requests are under way; try again in a moment.", **{"retry-after": "1"})


async def refuse(scope: Scope, send: Send, refused: RequestRefused) -> None:
    """Send the fault in the API's format, or as text.

    It leaves the response open; the server then closes the connection.
    """
    request_id = new_request_id()
    service = service_of(scope["path"])
    if service is None:
        content, kind = refused.message.encode(), "text/plain; charset=utf-8"
    else:
        fault = fault_body(service, refused.status, refused.message, request_id=request_id)
        content, kind = json.dumps(fault).encode(), "application/json"
    headers = {
        "content-type": kind,
        "content-length": str(len(content)),
        "connection": "close",
        REQUEST_ID_HEADER: request_id,
    }
    if service == "compute":
        headers[COMPUTE_HEADER] = request_id
    lines = [(name.encode(), value.encode()) for name, value in {**headers, **refused.headers}.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": lines})
    await send({"type": "http.response.body", "body": content, "more_body": True})


async def _pass_over(receive: Receive, seconds: float) -> None:
    """Read some of the remaining body: closing the connection over unread data would discard the response."""
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while size < MOST_PASSED_OVER:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
