"""HTTP protocol of our web processes: limits the size and the time of headers, which uvicorn does not."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from conductor.core.identifiers import REQUEST_ID_HEADER, new_request_id

MOST_HEADER_BYTES = 64 << 10  # the request line and all headers
HEADER_SECONDS = 15.0  # from the connection, or from the first byte of a request, to its last header
METHODS = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"
_REQUEST_LINE = re.compile(rb"[A-Za-z-]{1,40} \S+ HTTP/1\.[01]\r\n")


class _HeadersTooLarge(Exception):
    """The headers are larger than the limit."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Slow headers close it; unreadable requests get an error response first.

    Such a response has a request id as all others have, which the log shows with the reason.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_in_headers = True
        self._read = 0
        self._is_too_large = False
        self._begins_well = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._read += len(data)
        self._begins_well = bool(_REQUEST_LINE.match(data))
        super().data_received(data)
        if self._is_in_headers and self._read > MOST_HEADER_BYTES and not self.transport.is_closing():
            self._is_too_large = True
            self.send_400_response("")

    def handle_websocket_upgrade(self) -> None:
        self._disarm()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if self.transport.is_closing():
            return
        status, text, headers = 400, msg, {}
        if self._is_too_large:
            status, text = 431, f"The headers are larger than {MOST_HEADER_BYTES} bytes."
        elif self._begins_well and isinstance(sys.exception(), httptools.HttpParserInvalidMethodError):
            status, text, headers = 405, "There is no such method.", {"allow": METHODS}
        request_id = new_request_id()
        self.logger.warning("answered %s to what could not be read: %s request_id=%s", status, text, request_id)
        headers |= {"content-type": "text/plain; charset=utf-8", "content-length": str(len(text))}
        headers |= {"connection": "close", REQUEST_ID_HEADER: request_id}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[status] + f"{lines}\r\n{text}".encode())
        self.transport.close()

    # -- callbacks of the parser ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers, self._read = True, 0
        self._arm()

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        self._disarm()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEADER_BYTES:
            self._is_too_large = True
            raise _HeadersTooLarge  # the parser stops, and calls `send_400_response`
        super().on_headers_complete()

    # -- the deadline --------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
