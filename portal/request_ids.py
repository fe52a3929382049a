"""A request id for every answer: errors, discovery and pages included."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from conductor.core.request_ids import HEADER as HEADER
from conductor.core.request_ids import new_request_id as new_request_id

COMPUTE_HEADER = "x-compute-request-id"
_GLOBAL_ID = re.compile(r"\Areq-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_log = logging.getLogger(__name__)


def request_id_of(request: HttpRequest) -> str:
    """The id of this request; made on first use."""
    found: str | None = getattr(request, "request_id", None)
    if found is None:
        found = new_request_id()
        request.request_id = found  # type: ignore[attr-defined]
    return found


def remote_address_of(request: HttpRequest) -> str:
    """The client's address: the connection's, or what a proxy of NOVELLA_TRUSTED_PROXIES says (`public_address`)."""
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


class RequestIdMiddleware:
    """Gives `request.request_id` and answers with it. A caller's own id is logged beside ours, never taken over."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request)
        global_id = request.headers.get(HEADER, "")
        if _GLOBAL_ID.match(global_id):
            _log.info("request_id=%s global_request_id=%s", request_id, global_id)
        response = self.get_response(request)
        response[HEADER] = request_id
        if request.path_info.startswith("/compute"):
            response[COMPUTE_HEADER] = request_id
        return response
