"""Sign-in, sign-out, the current project, and the theme."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotAuthenticated, TooManyRequests
from conductor.services.accounts import second_factors
from conductor.services.accounts import sign_in as people
from conductor.services.audit import audit
from portal import callers, openid, sessions
from portal.pages.accounts import reauthentication
from portal.pages.permissions import error_page, safe_next
from portal.request_ids import remote_address_of, request_id_of
from portal.session_callers import PROJECT_KEY, user_of

LONGEST_PASSWORD = 4096
LONGEST_CODE = 64
HALF_KEY = "half_signed_in"
HALF_SECONDS = 300
SIGN_OUT_KEY = "provider_sign_out"


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the form; on POST sign in. The error is the same for every reason, so that it reveals no user names."""
    wanted = safe_next(request)
    username = request.POST.get("username", "").strip()
    if request.method != "POST":
        if user_of(request.session) is not None and request.session.get(PROJECT_KEY):
            return HttpResponseRedirect(wanted)
        return form(request, {"next": wanted})
    password = request.POST.get("password", "")[:LONGEST_PASSWORD]
    try:
        user = _proved(request, username, password)
    except TooManyRequests as error:
        answer = _refused(request, {"next": wanted, "username": username, "problem": error.message}, 429)
        answer["Retry-After"] = str(error.details["retry_after"])
        return answer
    if user is None:
        why = NotAuthenticated()
        audit.record_sign_in(_origin(request), method="password", account=username, error=why, to="portal")
        problem = gettext("Wrong user name or password")
        return _refused(request, {"next": wanted, "username": username, "problem": problem}, 401)
    return admit(request, user, wanted)


def _origin(request: HttpRequest, user: Any = None) -> RequestContext:
    """Return the context of a sign-in for the audit log: its address, and the user once verified."""
    user_id, name = (str(user.pk), user.username) if user is not None else ("", "")
    origin = RequestContext(user_id, "", request_id_of(request), user_name=name)
    return replace(origin, remote_address=remote_address_of(request))


def _proved(request: HttpRequest, username: str, password: str) -> Any:
    """Return the user; None if name or password is wrong. Raises TooManyRequests."""
    if "\x00" in username:
        return None
    return authenticate(request, username=username, password=password, address=remote_address_of(request))


def _refused(request: HttpRequest, context: dict[str, str], status: int) -> HttpResponse:
    if reauthentication.is_over_a_page(request):
        return reauthentication.refused(context["problem"], status)
    return form(request, context, status=status)


def admit(
    request: HttpRequest, user: Any, wanted: str, *, project_id: str = "", method: str = "password"
) -> HttpResponse:
    """Sign in a user whose password or provider was verified; with a second factor, ask for its code first."""
    if second_factors.is_on(str(user.pk)):
        _wait_for_code(request, user, wanted, project_id)
        return (
            reauthentication.code_wanted(request)
            if reauthentication.is_over_a_page(request)
            else redirect("sign-in-code")
        )
    login(request, user)
    audit.record_sign_in(_origin(request, user), method=method, to="portal")
    return _enter(request, user, wanted, project_id)


def _wait_for_code(request: HttpRequest, user: Any, wanted: str, project_id: str) -> None:
    """Keep the first half of the sign-in in a session that authenticates no user yet."""
    request.session.flush()
    half = {"user_id": str(user.pk), "hash": user.get_session_auth_hash(), "at": time.time(), "next": wanted}
    request.session[HALF_KEY] = {**half, "project_id": project_id}


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor: a code of the authenticator, or a recovery code."""
    half = request.session.get(HALF_KEY, {})
    is_fresh = time.time() - half.get("at", 0) < HALF_SECONDS
    user = people.half_signed_in(half["user_id"], half["hash"]) if is_fresh else None
    if user is None:
        request.session.pop(HALF_KEY, None)
        return redirect("sign-in")
    if request.method != "POST":
        return form(request, {}, template="accounts/sign_in_code.html")
    try:
        second_factors.prove(str(user.pk), request.POST.get("code", "")[:LONGEST_CODE])
    except NotAuthenticated as error:
        audit.record_sign_in(_origin(request, user), method="second factor", error=error, to="portal")
        problem = gettext("The code is wrong or was already used")
        if reauthentication.is_over_a_page(request):
            return reauthentication.refused(problem)
        return form(request, {"problem": problem}, status=401, template="accounts/sign_in_code.html")
    del request.session[HALF_KEY]
    login(request, user)
    audit.record_sign_in(_origin(request, user), method="second factor", to="portal")
    return _enter(request, user, half["next"], half.get("project_id", ""))


def form(
    request: HttpRequest, context: dict[str, str], status: int = 200, template: str = "accounts/sign_in.html"
) -> HttpResponse:
    response = render(request, template, context, status=status)
    patch_cache_control(response, no_store=True)
    return response


def _enter(request: HttpRequest, user: Any, wanted: str, project_id: str = "") -> HttpResponse:
    """Open the user's only, default or requested project; otherwise ask for one."""
    sessions.renew(request.session)
    callers.report(request, project_id, str(user.pk))
    mine = [choice.project_id for choice in people.projects_of(str(user.pk))]
    if reauthentication.is_over_a_page(request):
        return reauthentication.signed_in(request, str(user.pk), mine)
    typical = [project_id, user.default_project_id, *(mine if len(mine) == 1 else ())]
    for one in typical:
        if one in mine:
            request.session[PROJECT_KEY] = one
            return HttpResponseRedirect(wanted)
    request.session["next"] = wanted
    return redirect("project")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session and its live connections. Users of a provider are offered to end its session too."""
    elsewhere = request.session.get(SIGN_OUT_KEY, "")
    logout(request)
    if not elsewhere or not openid.is_on():
        return redirect("sign-in")
    way = openid.sign_out_address(elsewhere, request.build_absolute_uri(reverse("sign-in")))
    return form(request, {"way": way}, template="accounts/signed_out.html")


@require_http_methods(["GET", "HEAD", "POST"])
def project(request: HttpRequest) -> HttpResponse:
    """Select the project that pages are about."""
    user = user_of(request.session)
    if user is None:
        return redirect("sign-in")
    choices = people.projects_of(str(user.pk))
    if request.method == "POST":
        wanted = request.POST.get("project_id", "")
        if wanted not in {choice.project_id for choice in choices}:
            advice = gettext("Select a project in which you have a role.")
            return error_page(request, 404, gettext("Project not found"), advice)
        request.session[PROJECT_KEY] = wanted
        request.session.pop("next", None)
        return HttpResponseRedirect(safe_next(request))
    current = request.session.get(PROJECT_KEY) or user.default_project_id
    context = {"choices": choices, "current": current, "next": request.session.get("next", "")}
    return render(request, "accounts/choose_project.html", context)


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Store the theme with the user, so that every browser shows it without a flash."""
    user = user_of(request.session)
    if user is None:
        return redirect("sign-in")
    try:
        people.remember_theme(str(user.pk), request.POST.get("theme", ""))
    except Invalid as error:
        return error_page(request, 400, gettext("Unknown theme"), error.message)
    return HttpResponse(status=204) if getattr(request, "htmx", False) else HttpResponseRedirect(safe_next(request))
