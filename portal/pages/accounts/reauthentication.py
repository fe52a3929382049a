"""Sign-in on top of a page whose session has ended: the page stays, with the values typed into it."""

from __future__ import annotations

from collections.abc import Collection

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.cache import patch_cache_control

from portal.session_callers import PROJECT_KEY


def is_over_a_page(request: HttpRequest) -> bool:
    """Return whether a page's script sends the request: the user signs in on top of the page, which stays open."""
    return bool(getattr(request, "htmx", False))


def refused(problem: str, status: int = 401) -> HttpResponse:
    """Return the error in words."""
    return _answer({"problem": problem}, status=status)


def code_wanted(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor after a correct password."""
    return _answer({"code": reverse("sign-in-code"), "csrf": get_token(request)})


def signed_in(request: HttpRequest, user_id: str, project_ids: Collection[str]) -> HttpResponse:
    """Continue the page for the same user in its project; any other user starts at the home page."""
    page_user, _, project_id = request.POST.get("caller", "").partition(":")
    if page_user != user_id or project_id not in project_ids:
        return _answer({"away": reverse("project")})
    request.session[PROJECT_KEY] = project_id
    return _answer({"csrf": get_token(request)})


def _answer(body: dict[str, str], status: int = 200) -> HttpResponse:
    response = JsonResponse(body, status=status)
    patch_cache_control(response, no_store=True)
    return response
