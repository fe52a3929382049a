"""Request ids for every response; sessions, CSRF, messages and a content security policy for pages alone."""

from __future__ import annotations

import logging
import re
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
from conductor.core.identifiers import REQUEST_ID_HEADER
from portal import languages
from portal.api.roots import is_cookieless
from portal.request_bodies import STREAMS
from portal.request_ids import COMPUTE_HEADER, request_id_of

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
_GLOBAL_ID = re.compile(r"\Areq-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Sets `request.request_id` and adds it to the response. A caller's own id is only logged beside ours."""

    def __init__(self, get_response: GetResponse) -> None:
        self._next = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request)
        global_id = request.headers.get(REQUEST_ID_HEADER, "")
        if _GLOBAL_ID.match(global_id):
            _log.info("request_id=%s global_request_id=%s", request_id, global_id)
        response = self._next(request)
        request_id = request_id_of(request)  # a repeated request has the id of the first one
        response[REQUEST_ID_HEADER] = request_id
        if request.path_info.startswith("/compute"):
            response[COMPUTE_HEADER] = request_id
        return response


class TimeBudgetMiddleware:
    """Aborts a read-only request when its time is over and its client was answered 503; a change runs to its end."""

    def __init__(self, get_response: GetResponse) -> None:
        self._next = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in SAFE_METHODS or STREAMS.match(request.path_info):
            return self._next(request)
        with time_budget.within(settings.NOVELLA_REQUEST_SECONDS):
            return self._next(request)


class PagesOnlyMiddleware:
    """Django's session, CSRF and message middlewares in their default order, skipped for requests to the APIs.

    A token needs no cookie, and a cookie must not authenticate to an API: there the session is not even read.
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
        """Pass the CSRF check on: Django calls this hook only on this class."""
        if is_cookieless(request.path_info):
            return None
        return self._csrf.process_view(request, view, args, kwargs)

    def _with_policy(self, request: HttpRequest) -> HttpResponse:
        response = self._api(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response
