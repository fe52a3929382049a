"""Absolute links, with the host and scheme of the request."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest
from rest_framework.request import Request

from conductor.core.consoles import ConsoleKind
from conductor.services.consoles.consoles import ConsoleTicket


def base_url(request: Request | HttpRequest) -> str:
    """`http://host:port`, without a trailing slash; cached, as a list has thousands of links."""
    requested = request._request if isinstance(request, Request) else request
    found: str | None = getattr(requested, "base_url", None)
    if found is None:
        found = f"{requested.scheme}://{requested.get_host()}"
        requested.base_url = found  # type: ignore[attr-defined]
    return found


def absolute(request: Request | HttpRequest, path: str) -> str:
    """Return an absolute link to a path that begins with a slash."""
    return base_url(request) + path


def console_url(request: Request | HttpRequest, ticket: ConsoleTicket) -> str:
    """Return the address that opens a console: a page for VNC, and for a serial console its WebSocket."""
    if ticket.kind is ConsoleKind.VNC:  # clients look for the token in it
        return absolute(request, f"/console?{urlencode({'path': f'console?token={ticket.token}'})}")
    scheme = "wss" if request.scheme == "https" else "ws"
    return f"{scheme}://{request.get_host()}/console/{ticket.token}"
