"""One HTTP request of a guest and its answer, whatever carries the bytes."""

from __future__ import annotations

from http import HTTPStatus

import h11

from compute_drivers.guest_metadata import Answer, GuestPages

LARGEST_HEAD = 8192
LARGEST_BODY = 4096


class Exchange:
    """Feed it what comes; it gives the whole answer once, after which the connection is to be closed."""

    def __init__(self, pages: GuestPages) -> None:
        self._pages = pages
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
        self._request: h11.Request | None = None
        self._body = b""
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        """The answer, b"" while the request is not complete, and after it was answered."""
        if self.is_over or not data:
            return b""
        try:
            self._http.receive_data(data)
            return self._turn()
        except h11.RemoteProtocolError as error:
            return self._say(Answer(error.error_status_hint, b"This is no request that can be understood.\n"))

    def _turn(self) -> bytes:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event
                if self._http.they_are_waiting_for_100_continue and not self._is_too_large():
                    return bytes(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                asked = self._request
                method, target = asked.method.decode("ascii"), asked.target.decode("ascii", "replace")
                return self._say(self._pages.answer(method, target, self._body), is_head=method == "HEAD")
            else:
                return b""
            if self._is_too_large():
                return self._say(Answer(413, f"A request has at most {LARGEST_BODY} bytes.\n".encode()))

    def _is_too_large(self) -> bool:
        told = dict(self._request.headers).get(b"content-length", b"0") if self._request else b"0"
        return max(len(self._body), int(told)) > LARGEST_BODY

    def _say(self, answer: Answer, *, is_head: bool = False) -> bytes:
        if self.is_over:
            return b""
        self.is_over = True
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Connection": "close",
            **answer.headers,
        }
        reason = HTTPStatus(answer.status).phrase
        head = h11.Response(status_code=answer.status, reason=reason, headers=list(headers.items()))
        said = self._http.send(head) or b""
        return bytes(said) + (b"" if is_head else answer.body)
