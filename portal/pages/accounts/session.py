"""The remaining lifetime of a session, which open pages read and renew."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_http_methods

from portal import sessions
from portal.pages.permissions import safe_next
from portal.session_callers import user_of


@require_http_methods(["GET", "HEAD", "POST"])
def session(request: HttpRequest) -> HttpResponse:
    """Return `{"left": seconds}`; 401 when it has ended. POST renews the session; without scripts it redirects back."""
    if user_of(request.session) is None:
        return _answer(0, status=401)
    if request.method == "POST":
        sessions.renew(request.session)
        if not getattr(request, "htmx", False):
            return redirect(safe_next(request))
    left = sessions.seconds_left(request.session)
    return _answer(request.session.get_expiry_age() if left is None else left)


def _answer(left: float, status: int = 200) -> HttpResponse:
    response = JsonResponse({"left": int(left)}, status=status)
    patch_cache_control(response, no_store=True)
    return response
