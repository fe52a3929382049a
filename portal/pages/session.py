"""The time that a session has left, for pages that stay open: asked for, and renewed by whoever stays."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_http_methods

from portal import sessions
from portal.askers import user_of
from portal.pages.access import safe_next


@require_http_methods(["GET", "HEAD", "POST"])
def session(request: HttpRequest) -> HttpResponse:
    """`{"left": seconds}`; 401 when it has ended. POST begins its time anew; without scripts it leads back."""
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
