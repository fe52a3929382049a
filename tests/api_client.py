"""A client of the HTTP APIs: JSON in and out, with a user's token."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler

_NOTHING = object()


@cache
def _handler(middleware: tuple[str, ...]) -> ClientHandler:
    """Return one stack for all clients: building it takes longer than most requests, and it keeps nothing of them."""
    return ClientHandler(enforce_csrf_checks=False)


class ApiClient:
    """Calls the APIs in this process through the whole middleware stack.

    `version` is the compute microversion to request ("2.90", "latest"); None requests none. Responses are Django's:
    `status_code`, `json()`, `headers`. An unexpected error is a 500, as for all clients; see the log.
    """

    def __init__(self, token: str | None = None, *, version: str | None = None) -> None:
        self.token = token
        self.version = version
        self._client = Client(raise_request_exception=False)
        self._client.handler = _handler(tuple(settings.MIDDLEWARE))

    def call(
        self, method: str, path: str, body: Any = _NOTHING, *, headers: dict[str, str] | None = None
    ) -> HttpResponse:
        """Send one request. `body` is sent as JSON; bytes and text are sent as they are (content type by header)."""
        sent = {"X-Auth-Token": self.token} if self.token else {}
        if self.version is not None:
            sent["OpenStack-API-Version"] = f"compute {self.version}"
        sent |= headers or {}
        content_type = next((sent.pop(name) for name in list(sent) if name.lower() == "content-type"), None)
        if body is _NOTHING:
            data: bytes | str = b""
        elif isinstance(body, bytes | str):
            data = body
        else:
            data = json.dumps(body)
        return self._client.generic(method, path, data, content_type or "application/json", headers=sent)

    def get(self, path: str, **kwargs: Any) -> HttpResponse:
        return self.call("GET", path, **kwargs)

    def head(self, path: str, **kwargs: Any) -> HttpResponse:
        return self.call("HEAD", path, **kwargs)

    def post(self, path: str, body: Any = _NOTHING, **kwargs: Any) -> HttpResponse:
        return self.call("POST", path, body, **kwargs)

    def put(self, path: str, body: Any = _NOTHING, **kwargs: Any) -> HttpResponse:
        return self.call("PUT", path, body, **kwargs)

    def patch(self, path: str, body: Any = _NOTHING, **kwargs: Any) -> HttpResponse:
        return self.call("PATCH", path, body, **kwargs)

    def delete(self, path: str, **kwargs: Any) -> HttpResponse:
        return self.call("DELETE", path, **kwargs)
