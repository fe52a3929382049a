"""Watching a console: the dialog that makes and revokes links, and the page behind one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language, gettext
from django.views.decorators.http import require_POST, require_safe

from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NotSupported, NovellaError, Unavailable
from conductor.services import console_shares, consoles, instances
from portal.pages.access import PageRequest, error_page, signed_in
from portal.pages.consoles import NAMES
from portal.pages.told import told

REFUSALS = (Conflict, Forbidden, Invalid, NotFound, NotSupported, Unavailable)


@require_safe
@signed_in
def shares(request: PageRequest, server_uuid: str) -> HttpResponse:
    """Who may watch, as a fragment. Raises NotFound."""
    return _fragment(request, server_uuid)


@require_POST
@signed_in
def share(request: PageRequest, server_uuid: str) -> HttpResponse:
    """Make a link, and show it this once."""
    kind, minutes = request.POST.get("kind", ""), request.POST.get("minutes", "")
    if kind not in tuple(ConsoleKind) or not minutes.isdecimal():
        raise Http404
    try:
        token, made = console_shares.share(request.asker, server_uuid, ConsoleKind(kind), int(minutes[:6]))
    except REFUSALS as error:
        return _fragment(request, server_uuid, problem=error.message)
    link = request.build_absolute_uri(reverse("watch-console", args=[token]))
    return _fragment(request, server_uuid, link=link, made=made)


@require_POST
@signed_in
def revoke(request: PageRequest, server_uuid: str, share_uuid: str) -> HttpResponse:
    """Who watches by the link is shown out within seconds."""
    try:
        console_shares.revoke(request.asker, server_uuid, share_uuid)
    except NotFound as error:
        return _fragment(request, server_uuid, problem=error.message)
    return _fragment(request, server_uuid)


@require_safe
@signed_in
def watch(request: PageRequest, token: str) -> HttpResponse:
    """The page behind a link; one that is no good any more says why."""
    try:
        shared = console_shares.find(request.asker, token)
    except NotFound as error:
        return error_page(request, 404, gettext("There is nothing to watch"), error.message)
    context = {
        "watch": shared,
        "server": instances.get(request.asker, shared.instance_uuid),
        "kind_name": NAMES[shared.kind],
        "desk_url": reverse("watch-console", args=[token]),
    }
    response = render(request, "console.html", context)
    response["Referrer-Policy"] = "same-origin"  # the link is for nobody else; forms here must say where they come from
    response["Cache-Control"] = "no-store"
    return response


@require_POST
@signed_in
def open_watched(request: PageRequest, token: str, kind: str) -> HttpResponse:
    """A token for the watcher's own socket, which ends with this session; as JSON, also where it is refused."""
    try:
        ticket, shared = console_shares.watch(request.asker, token, session_key=str(request.session.session_key))
    except (Conflict, Unavailable) as error:  # so it is for now: no error, and asked again soon
        goes_on = gettext("This page goes on by itself as soon as it can.")
        return JsonResponse({"error": f"{_told(error)} {goes_on}", "waits": True})
    except NovellaError as error:
        return JsonResponse({"error": _told(error)}, status=409)
    longest = settings.NOVELLA_CONSOLE_SESSION_SECONDS or shared.seconds_left
    return JsonResponse({"path": f"/console/{ticket.token}", "seconds": min(longest, shared.seconds_left)})


def _told(error: NovellaError) -> str:
    return told(error.message, get_language() or "en")


def _fragment(request: PageRequest, server_uuid: str, **said: Any) -> HttpResponse:
    why_not = consoles.kinds(request.asker, server_uuid)
    context = {
        "server_uuid": server_uuid,
        "kinds": [(kind, name) for kind, name in NAMES.items() if not why_not[kind]],
        "why_none": next(iter(why_not.values())),
        "lengths": [(minutes, minutes * 60) for minutes in console_shares.MINUTES],
        "shares": [(one, NAMES[one.kind]) for one in console_shares.list_shares(request.asker, server_uuid)],
        **said,
    }
    response = render(request, "servers/_console_shares.html", context)
    response["Cache-Control"] = "no-store"
    return response
