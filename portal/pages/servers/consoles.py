"""Consoles in the browser: those of a server's page, tokens for their sockets, and the page behind a link."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from conductor.core.consoles import ConsoleKind
from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.services.consoles import consoles
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.wording import translated

NAMES = {ConsoleKind.SERIAL: "Serial", ConsoleKind.VNC: "Screen"}
PAGE_SECONDS = 30.0  # a page uses its token immediately
SOCKET_PATH = re.compile(r"console(?:/|\?token=)([A-Za-z0-9_-]{20,100})")


def pane_context(caller: RequestContext, server_uuid: str) -> dict[str, Any]:
    """Context of `_console_pane.html`: the available consoles, and why others are not. Raises NotFound."""
    why_not = consoles.kinds(caller, server_uuid)
    return {
        "console_url": reverse("server-tab", args=[server_uuid, "console"]),
        "kinds": [{"kind": kind, "name": name, "why_not": why_not[kind]} for kind, name in NAMES.items()],
    }


@require_POST
@signed_in
def open_console(request: PageRequest, server_uuid: str, kind: str) -> HttpResponse:
    """Return a token for the page's socket, which ends with this session; as JSON, also for a refusal."""
    if kind not in tuple(ConsoleKind):
        raise Http404
    session_key = str(request.session.session_key)
    try:
        ticket = consoles.grant(
            request.caller, server_uuid, ConsoleKind(kind), session_key=session_key, seconds=PAGE_SECONDS
        )
    except NovellaError as error:
        return JsonResponse({"error": translated(error.message)}, status=409)
    return JsonResponse({"path": f"/console/{ticket.token}", "seconds": settings.NOVELLA_CONSOLE_SESSION_SECONDS})


@require_safe
def linked(request: HttpRequest) -> HttpResponse:
    """Show the page of a link from the API. It needs no account, because the link is the credential."""
    named = SOCKET_PATH.fullmatch(request.GET.get("path", ""))
    if named is None:
        raise Http404
    # The page's script uses the address that returns why a token is invalid.
    response = render(request, "servers/console.html", {"path": f"console/{named[1]}"})
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    return response
