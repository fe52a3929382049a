"""Request bodies: how large they may be, by route, and image data as streams.

A stream is never whole in memory, and the end of its data is checked: the client may have sent only a part. The image
service limits image data.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, UnreadablePostError

from conductor.core.errors import Invalid

KIB = 1 << 10
STREAMS = re.compile(r"\A/image/v[0-9.]+/images/[^/]+/(file|stage)/?\Z")  # image data, in both directions
# The first match wins.
BOUNDS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"\A/identity/v3/auth/"), 64 * KIB),  # no token needed
    (re.compile(r"\A/(identity|network)/"), 512 * KIB),
    (re.compile(r"\A/compute/v2[.0-9]*/os-keypairs"), 64 * KIB),
    (re.compile(r"\A/api/"), 1024 * KIB),
    (re.compile(r"\A/sign-in"), 64 * KIB),
)
CHUNK = 1 << 18
_BROKE_OFF = "novella.body_broke_off"
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[MutableMapping[str, Any], Receive, Any], Awaitable[None]]


def most_bytes(path: str) -> int:
    """Return the largest body that this path accepts, in bytes."""
    default = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2_500_000
    return next((min(most, default) for pattern, most in BOUNDS if pattern.match(path)), default)


class WatchedBodies:
    """ASGI middleware that remembers a client's disconnect before the end of its body.

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
    """Yield the body in pieces of up to CHUNK bytes. Raises Invalid when the client did not send all of it."""
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
    # Django treats a body without a length as empty, so this reads the input below it.
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
