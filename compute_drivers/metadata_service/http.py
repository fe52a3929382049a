"""One HTTP request of a guest and its response, independent of the transport."""

from __future__ import annotations

from http import HTTPStatus

import h11

from compute_drivers.metadata_pages import MetadataPages, PageResponse

MAX_HEAD_BYTES = 8192
MAX_BODY_BYTES = 4096


class Exchange:
    """Takes received bytes and returns the whole response once; then the connection is to be closed."""

    def __init__(self, pages: MetadataPages) -> None:
        self._pages = pages
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._request: h11.Request | None = None
        self._body = b""
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        """Return the response; b"" while the request is incomplete, and after the response."""
        if self.is_over or not data:
            return b""
        try:
            self._http.receive_data(data)
            return self._process()
        except h11.RemoteProtocolError as error:
            return self._respond(PageResponse(error.error_status_hint, b"This is no request that can be understood.\n"))

    def _process(self) -> bytes:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event
                if self._http.they_are_waiting_for_100_continue and not self._is_too_large():
                    return bytes(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                requested = self._request
                method, target = requested.method.decode("ascii"), requested.target.decode("ascii", "replace")
                return self._respond(self._pages.respond(method, target, self._body), is_head=method == "HEAD")
            else:
                return b""
            if self._is_too_large():
                return self._respond(PageResponse(413, f"A request has at most {MAX_BODY_BYTES} bytes.\n".encode()))

    def _is_too_large(self) -> bool:
        length = dict(self._request.headers).get(b"content-length", b"0") if self._request else b"0"
        return max(len(self._body), int(length)) > MAX_BODY_BYTES

    def _respond(self, response: PageResponse, *, is_head: bool = False) -> bytes:
        if self.is_over:
            return b""
        self.is_over = True
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Connection": "close",
            **response.headers,
        }
        reason = HTTPStatus(response.status).phrase
        head = h11.Response(status_code=response.status, reason=reason, headers=list(headers.items()))
        encoded = self._http.send(head) or b""
        return bytes(encoded) + (b"" if is_head else response.body)
