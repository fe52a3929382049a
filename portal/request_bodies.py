"""Large request bodies as streams: never whole in memory, and one that broke off is told from one that ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from django.http import HttpRequest, UnreadablePostError

from conductor.core.errors import Invalid

CHUNK = 1 << 18
_BROKE_OFF = "novella.body_broke_off"
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[MutableMapping[str, Any], Receive, Any], Awaitable[None]]


class WatchedBodies:
    """ASGI middleware that remembers when a client left before its body was whole.

    A chunked body has no length to compare with, and WSGI shows a lost connection as an ordinary end of input.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Any) -> None:
        is_whole = False

        async def watched() -> Message:
            nonlocal is_whole
            message = await receive()
            if message["type"] == "http.request":
                is_whole = not message.get("more_body", False)
            elif message["type"] == "http.disconnect" and not is_whole:
                scope[_BROKE_OFF] = True
            return message

        await self.application(scope, watched, send)


def chunks_of(request: HttpRequest) -> Iterator[bytes]:
    """The body in pieces of up to CHUNK bytes. Raises Invalid when the client did not send all of it."""
    if request.headers.get("Transfer-Encoding", "").lower() == "chunked":
        yield from _chunked(request)
        return
    missing = int(request.META.get("CONTENT_LENGTH") or 0)
    while missing > 0 and (chunk := _read(request, min(CHUNK, missing))):
        missing -= len(chunk)
        yield chunk
    if missing:
        raise Invalid(f"The request body broke off: {missing} bytes are missing.")


def _chunked(request: HttpRequest) -> Iterator[bytes]:
    # The framework takes a body without a length for an empty one, so this reads what lies below it.
    scope = request.META.get("asgi.scope")
    if scope is None:
        raise Invalid("This server does not take chunked bodies: send Content-Length.")
    stream = request.META["wsgi.input"]
    while chunk := stream.read(CHUNK):
        yield chunk
    if scope.get(_BROKE_OFF):
        raise Invalid("The request body broke off before its last chunk.")


def _read(request: HttpRequest, size: int) -> bytes:
    try:
        return request.read(size)
    except UnreadablePostError:
        return b""
