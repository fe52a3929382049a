"""Decorators of page views: they check the sign-in and the role, and show our errors as pages."""

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
from conductor.core.errors import Forbidden, Invalid, NotFound, TooManyRequests, Unavailable
from portal import callers, languages, sessions
from portal.request_ids import remote_address_of, request_id_of
from portal.session_callers import caller_of, user_of

STARTED_KEY = "started"
MOST_STARTED = 20


class PageRequest(HttpRequest):
    """A request of a signed-in user, for a project unless the page is `of_oneself`."""

    caller: RequestContext
    htmx: Any


View = Callable[..., HttpResponse]


def signed_in(view: View) -> View:
    """Set `request.caller`; redirect to the sign-in page without one, and back here afterwards."""
    return _guarded(view, needs_project=True)


def of_oneself(view: View) -> View:
    """Set `request.caller` for a user's own pages. A user without any project is a caller without project and roles."""
    return _guarded(view, needs_project=False)


def _guarded(view: View, *, needs_project: bool) -> View:
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        caller = caller_of(request.session, request_id_of(request), language=get_language() or languages.ENGLISH)
        if caller is None:
            user = user_of(request.session)
            if user is None:
                return _to_sign_in(request)
            if needs_project:
                return redirect("project")
            caller = RequestContext(str(user.pk), "", request_id_of(request), user_name=user.username)
        request.caller = replace(caller, remote_address=remote_address_of(request))
        callers.report(request, caller.project_id, caller.user_id)
        if not getattr(request, "htmx", False):  # requests that a page sends by itself do not renew the session
            sessions.renew_by_use(request.session)
        _remember_what_is_started(request)
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(error.message)
        except Forbidden as error:
            raise PermissionDenied(error.message)
        except (Invalid, TooManyRequests, Unavailable) as error:
            return _error_page(request, error)

    return wrapped


def _error_page(request: HttpRequest, error: Invalid | TooManyRequests | Unavailable) -> HttpResponse:
    if isinstance(error, Invalid):
        return error_page(request, 400, gettext("Invalid address"), error.message)
    if isinstance(error, TooManyRequests):
        return error_page(request, 429, gettext("Too many requests"), error.message)
    return error_page(request, 503, gettext("A required service doesn't respond"), error.message)


def operators_only(view: View) -> View:
    """Answer callers other than operators as for a page that does not exist."""

    @signed_in
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.caller.is_admin:
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped


def members_only(view: View) -> View:
    """Answer readers of the project like the API: their role does not allow it."""

    @signed_in
    @wraps(view)
    def wrapped(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not may_change(request.caller):
            raise Forbidden("Your role in this project is read-only.")
        return view(request, *args, **kwargs)

    return wrapped


def may_change(caller: RequestContext) -> bool:
    """Whether the caller may change the project's resources, like its members."""
    return caller.is_admin or "member" in caller.roles


def error_page(request: HttpRequest, status: int, title: str, message: str) -> HttpResponse:
    """Show an error in words, with the request id to quote."""
    again = request.get_full_path() if status == 503 and request.method == "GET" else ""
    values = {"title": title, "message": message, "again": again}
    context = {"status": status, "request_id": request_id_of(request), **values}
    return render(request, "errors/error.html", context, status=status)


def safe_next(request: HttpRequest) -> str:
    """Return the address to open after sign-in: a path of this portal, never another site."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if is_ours else reverse("home")


def _remember_what_is_started(request: PageRequest) -> None:
    """Remember the request id in the session: workflows have it, so a browser recognizes its own when they end."""
    if request.method == "POST":
        known: list[str] = request.session.get(STARTED_KEY, [])
        request.session[STARTED_KEY] = [*known, request.caller.request_id][-MOST_STARTED:]


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    where = f"{reverse('sign-in')}?{urlencode({'next': _return_path(request)})}"
    if getattr(request, "htmx", False):  # the sign-in form must not replace a fragment
        response = HttpResponse(status=204)
        response["HX-Redirect"] = where
        return response
    return HttpResponseRedirect(where)


def _return_path(request: HttpRequest) -> str:
    """Return the address after sign-in. A POST is not repeated: its form comes back, with the browser's draft."""
    return request.get_full_path() if request.method in ("GET", "HEAD") else request.path
