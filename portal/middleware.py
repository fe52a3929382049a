"""Sessions, CSRF, messages and a content security policy for pages; none of them for the APIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware

from conductor.core import time_budget
from portal import languages
from portal.api.roots import is_cookieless
from portal.body_bounds import STREAMS

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

GetResponse = Callable[[HttpRequest], HttpResponse]


class TimeBudgetMiddleware:
    """Ends a request that only reads when its client has been answered 503 for its length; a change runs to its end."""

    def __init__(self, get_response: GetResponse) -> None:
        self._next = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in SAFE_METHODS or STREAMS.match(request.path_info):
            return self._next(request)
        with time_budget.within(settings.NOVELLA_REQUEST_SECONDS):
            return self._next(request)


class PagesOnlyMiddleware:
    """Django's own middlewares in their usual order, taken around by requests to the APIs.

    A token needs no cookie, and a cookie must not open an API: so there the session is not even read.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._api = get_response
        self._csrf = CsrfViewMiddleware(
            AuthenticationMiddleware(MessageMiddleware(XFrameOptionsMiddleware(self._with_policy)))
        )
        self._pages = SessionMiddleware(self._csrf)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_cookieless(request.path_info):
            return self._api(request)
        with languages.of_request(request):
            return self._pages(request)  # type: ignore[return-value]

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Django calls this hook on this class alone, so the CSRF check is passed on from here."""
        if is_cookieless(request.path_info):
            return None
        return self._csrf.process_view(request, view, args, kwargs)

    def _with_policy(self, request: HttpRequest) -> HttpResponse:
        response = self._api(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response
