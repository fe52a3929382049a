"""Consoles in the browser: what a server's page offers, tokens for its sockets, and the page behind a link."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_POST, require_safe

from conductor.core.consoles import ConsoleKind
from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.services import consoles
from portal.pages.access import PageRequest, signed_in
from portal.pages.told import told

NAMES = {ConsoleKind.SERIAL: "Serial", ConsoleKind.VNC: "Screen"}
PAGE_SECONDS = 30.0  # a page uses its token at once
SOCKET_PATH = re.compile(r"console(?:/|\?token=)([A-Za-z0-9_-]{20,100})")


def desk(asker: RequestContext, server_uuid: str) -> dict[str, Any]:
    """Context of `_console_desk.html`: which consoles there are, and why not. Raises NotFound."""
    why_not = consoles.kinds(asker, server_uuid)
    return {
        "desk_url": reverse("server-tab", args=[server_uuid, "console"]),
        "kinds": [{"kind": kind, "name": name, "why_not": why_not[kind]} for kind, name in NAMES.items()],
    }


@require_POST
@signed_in
def open_console(request: PageRequest, server_uuid: str, kind: str) -> HttpResponse:
    """A token for the page's own socket, which ends with this session; as JSON, also where it is refused."""
    if kind not in tuple(ConsoleKind):
        raise Http404
    session_key = str(request.session.session_key)
    try:
        ticket = consoles.grant(
            request.asker, server_uuid, ConsoleKind(kind), session_key=session_key, seconds=PAGE_SECONDS
        )
    except NovellaError as error:
        return JsonResponse({"error": told(error.message, get_language() or "en")}, status=409)
    return JsonResponse({"path": f"/console/{ticket.token}", "seconds": settings.NOVELLA_CONSOLE_SESSION_SECONDS})


@require_safe
def linked(request: HttpRequest) -> HttpResponse:
    """The page of a link that the API gave: who has it needs no account here, as the link is the right."""
    named = SOCKET_PATH.fullmatch(request.GET.get("path", ""))
    if named is None:
        raise Http404
    # The page's script asks at the address that says why a token is no good.
    response = render(request, "console.html", {"path": f"console/{named[1]}"})
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    return response
