"""The door to every page: who asks, or the way to the sign-in page; and errors of ours as pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language, gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound, Unavailable
from portal import languages, sessions
from portal.askers import asker_of, user_of
from portal.request_ids import remote_address_of, request_id_of

STARTED_KEY = "started"
MOST_STARTED = 20


class PageRequest(HttpRequest):
    """A request of somebody who has signed in, for a project unless the page is `of_oneself`."""

    asker: RequestContext
    htmx: Any


View = Callable[..., HttpResponse]


def signed_in(view: View) -> View:
    """The view gets `request.asker`; others are sent to sign in, and back here afterwards."""
    return _door(view, needs_project=True)


def of_oneself(view: View) -> View:
    """The same for what is a person's own: whoever has no role in any project is an asker without project and roles."""
    return _door(view, needs_project=False)


def _door(view: View, *, needs_project: bool) -> View:
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        asker = asker_of(request.session, request_id_of(request), language=get_language() or languages.ENGLISH)
        if asker is None:
            user = user_of(request.session)
            if user is None:
                return _to_sign_in(request)
            if needs_project:
                return redirect("project")
            asker = RequestContext(str(user.pk), "", request_id_of(request), user_name=user.username)
        request.asker = replace(asker, remote_address=remote_address_of(request))
        if not getattr(request, "htmx", False):  # what a page asks for by itself is not use
            sessions.renew_by_use(request.session)
        _remember_what_is_started(request)
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(error.message)
        except Forbidden as error:
            raise PermissionDenied(error.message)
        except Invalid as error:
            return error_page(request, 400, gettext("That address is not valid"), error.message)
        except Unavailable as error:
            return error_page(request, 503, gettext("Something that this page needs does not answer"), error.message)

    return wrapped


def operators_only(view: View) -> View:
    """Tenants get the same answer as for a page that does not exist."""

    @signed_in
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.asker.is_admin:
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped


def members_only(view: View) -> View:
    """Who only reads in the project gets what the API answers: that the role does not allow it."""

    @signed_in
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not may_change(request.asker):
            raise Forbidden("Who only reads in this project changes nothing in it.")
        return view(request, *args, **kwargs)

    return wrapped


def may_change(asker: RequestContext) -> bool:
    """Whether the asker does more than read in the project: members launch its servers and delete them."""
    return asker.is_admin or "member" in asker.roles


def error_page(request: HttpRequest, status: int, title: str, message: str) -> HttpResponse:
    """What failed, in words, with the request id to quote."""
    again = request.get_full_path() if status == 503 and request.method == "GET" else ""
    said = {"title": title, "message": message, "again": again}
    context = {"status": status, "request_id": request_id_of(request), **said}
    return render(request, "errors/error.html", context, status=status)


def safe_next(request: HttpRequest) -> str:
    """Where to go after signing in: a path of this portal, never another site."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if is_ours else reverse("home")


def _remember_what_is_started(request: PageRequest) -> None:
    """Workflows carry the id of the request that began them: so a browser knows its own when they end."""
    if request.method == "POST":
        known: list[str] = request.session.get(STARTED_KEY, [])
        request.session[STARTED_KEY] = [*known, request.asker.request_id][-MOST_STARTED:]


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    where = f"{reverse('sign-in')}?{urlencode({'next': _return_path(request)})}"
    if getattr(request, "htmx", False):  # a fragment must not swallow the sign-in form
        response = HttpResponse(status=204)
        response["HX-Redirect"] = where
        return response
    return HttpResponseRedirect(where)


def _return_path(request: HttpRequest) -> str:
    """A form is not sent again by signing in: its page comes back, with the draft that the browser kept."""
    return request.get_full_path() if request.method in ("GET", "HEAD") else request.path
