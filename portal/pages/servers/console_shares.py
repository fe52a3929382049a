"""Console shares: the dialog that creates and revokes links, and the page behind a link."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NotSupported, NovellaError, Unavailable
from conductor.services.consoles import consoles
from conductor.services.consoles import shares as console_shares
from conductor.services.servers import instances
from portal.pages.permissions import PageRequest, error_page, signed_in
from portal.pages.servers.consoles import NAMES
from portal.pages.wording import translated

REFUSALS = (Conflict, Forbidden, Invalid, NotFound, NotSupported, Unavailable)


@require_safe
@signed_in
def shares(request: PageRequest, server_uuid: str) -> HttpResponse:
    """Show the active shares, as a fragment. Raises NotFound."""
    return _fragment(request, server_uuid)


@require_POST
@signed_in
def share(request: PageRequest, server_uuid: str) -> HttpResponse:
    """Create a link, and show it this once."""
    kind, minutes = request.POST.get("kind", ""), request.POST.get("minutes", "")
    if kind not in tuple(ConsoleKind) or not minutes.isdecimal():
        raise Http404
    try:
        token, made = console_shares.share(request.caller, server_uuid, ConsoleKind(kind), int(minutes[:6]))
    except REFUSALS as error:
        return _fragment(request, server_uuid, problem=error.message)
    link = request.build_absolute_uri(reverse("watch-console", args=[token]))
    return _fragment(request, server_uuid, link=link, made=made)


@require_POST
@signed_in
def revoke(request: PageRequest, server_uuid: str, share_uuid: str) -> HttpResponse:
    """Revoke a link: its viewers are disconnected within seconds."""
    try:
        console_shares.revoke(request.caller, server_uuid, share_uuid)
    except NotFound as error:
        return _fragment(request, server_uuid, problem=error.message)
    return _fragment(request, server_uuid)


@require_safe
@signed_in
def watch(request: PageRequest, token: str) -> HttpResponse:
    """Show the page behind a link; for an invalid link, the reason."""
    try:
        shared = console_shares.find(request.caller, token)
    except NotFound as error:
        return error_page(request, 404, gettext("Console not shared"), error.message)
    context = {
        "watch": shared,
        "server": instances.get(request.caller, shared.instance_uuid),
        "kind_name": NAMES[shared.kind],
        "console_url": reverse("watch-console", args=[token]),
    }
    response = render(request, "servers/console.html", context)
    response["Referrer-Policy"] = "same-origin"  # keeps the link secret; forms here still need their origin
    response["Cache-Control"] = "no-store"
    return response


@require_POST
@signed_in
def open_watched(request: PageRequest, token: str, kind: str) -> HttpResponse:
    """Return a token for the viewer's socket, which ends with this session; as JSON, also for a refusal."""
    try:
        ticket, shared = console_shares.watch(request.caller, token, session_key=str(request.session.session_key))
    except (Conflict, Unavailable) as error:  # temporary: not an error, and the page retries soon
        goes_on = gettext("This page continues automatically when the console is available.")
        return JsonResponse({"error": f"{_message_of(error)} {goes_on}", "waits": True})
    except NovellaError as error:
        return JsonResponse({"error": _message_of(error)}, status=409)
    longest = settings.NOVELLA_CONSOLE_SESSION_SECONDS or shared.seconds_left
    return JsonResponse({"path": f"/console/{ticket.token}", "seconds": min(longest, shared.seconds_left)})


def _message_of(error: NovellaError) -> str:
    return translated(error.message)


def _fragment(request: PageRequest, server_uuid: str, **reported: Any) -> HttpResponse:
    why_not = consoles.kinds(request.caller, server_uuid)
    context = {
        "server_uuid": server_uuid,
        "kinds": [(kind, name) for kind, name in NAMES.items() if not why_not[kind]],
        "why_none": next(iter(why_not.values())),
        "lengths": [(minutes, minutes * 60) for minutes in console_shares.MINUTES],
        "shares": [(one, NAMES[one.kind]) for one in console_shares.list_shares(request.caller, server_uuid)],
        **reported,
    }
    response = render(request, "servers/_console_shares.html", context)
    response["Cache-Control"] = "no-store"
    return response
