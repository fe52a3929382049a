"""Maps errors to HTTP statuses and to the fault body of each service.

STATUS maps errors to status codes, FAULTS holds the fault format of each service. EXCEPTIONS_TO_THE_RULE lists the
errors that one service answers with another code. Raise errors of `conductor.core.errors` everywhere: the caller reads
the message verbatim. The network API's fault type is `details["type"]`, e.g. `NotFound("Network x could not be found.",
type="NetworkNotFound")`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseServerError, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from conductor.core import errors
from portal.api.roots import service_of
from portal.request_ids import request_id_of

_log = logging.getLogger(__name__)


class UnsupportedVersion(errors.NovellaError):
    """The requested API version is not supported."""


class Gone(errors.NovellaError):
    """The resource existed, and was removed permanently."""


class ConditionNeeded(errors.NovellaError):
    """Send If-Match with the revision that you have seen, or *, so that no change is lost."""


class TooLarge(errors.NovellaError):
    """The request body is too large."""


STATUS: tuple[tuple[type[Exception], int], ...] = (  # first match wins; anything else is a 500 with a request id
    (errors.NotFound, 404),
    (errors.StaleRevision, 412),
    (errors.Conflict, 409),
    (errors.QuotaExceeded, 403),
    (errors.Forbidden, 403),
    (errors.Invalid, 400),
    (errors.NoValidHost, 400),
    (errors.NotAuthenticated, 401),
    (errors.ActionFailed, 500),
    (errors.NotSupported, 501),
    (errors.Unavailable, 503),
    (errors.StorageFull, 507),
    (UnsupportedVersion, 406),
    (Gone, 410),
    (TooLarge, 413),
    (ConditionNeeded, 428),
    (errors.TooManyRequests, 429),
    (RequestDataTooBig, 413),
    (SuspiciousOperation, 400),
    (PermissionDenied, 403),
    (Http404, 404),
    (IntegrityError, 409),  # another transaction took the value between check and write
    (OperationalError, 503),
    (InterfaceError, 503),  # the connection was lost
)
EXCEPTIONS_TO_THE_RULE: Mapping[tuple[str, type[Exception]], int] = {
    ("network", errors.QuotaExceeded): 409,
    ("volume", errors.QuotaExceeded): 413,
    ("image", errors.QuotaExceeded): 413,
    ("image", errors.StorageFull): 413,
}

# Messages of errors that are not ours: the framework's own may reveal internals.
WORDS = {
    400: "The request is not valid.",
    401: "The request you have made requires authentication.",
    403: "Policy does not allow this request.",
    404: "The resource could not be found.",
    405: "The method is not allowed for this resource.",
    409: "Another request changed the same resource at the same moment; read it again and retry.",
    413: "The request body is too large.",
    415: "The media type of the request is not supported; send application/json.",
    503: "A service that is needed does not answer; try again in a moment.",
}
COMPUTE_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}


def _title(status: int) -> str:
    return HTTPStatus(status).phrase


def _compute(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {COMPUTE_NAMES.get(status, "computeFault"): {"code": status, "message": message}}


def _identity(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"error": {"code": status, "title": _title(status), "message": message}}


def _network(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"NeutronError": {"type": kind, "message": message, "detail": ""}}


def _load_balancer(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"faultcode": "Client" if status < 500 else "Server", "faultstring": message, "debuginfo": None}


def _image(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"code": status, "title": _title(status), "message": message}


def _placement(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"errors": [{"status": status, "title": _title(status), "detail": message, "request_id": request_id}]}


def _novella(status: int, message: str, kind: str, request_id: str) -> dict[str, Any]:
    return {"error": {"code": status, "title": _title(status), "message": message, "request_id": request_id}}


Fault = Callable[[int, str, str, str], dict[str, Any]]
FAULTS: Mapping[str, Fault] = {
    "compute": _compute,
    "identity": _identity,
    "network": _network,
    "load-balancer": _load_balancer,
    "volume": _compute,
    "image": _image,
    "placement": _placement,
    "novella": _novella,
}


def status_of(error: Exception, service: str) -> int:
    """Return the status code of an error in one service's API."""
    if isinstance(error, APIException):
        return int(error.status_code)
    for kind, status in STATUS:
        if isinstance(error, kind):
            return EXCEPTIONS_TO_THE_RULE.get((service, kind), status)
    return 500


def message_of(error: Exception, status: int, request_id: str) -> str:
    """Return the message for the caller. For an unexpected error it has only the request id."""
    if isinstance(error, errors.NovellaError) and (status != 500 or isinstance(error, errors.ActionFailed)):
        return error.message
    if isinstance(error, APIException) and status == 400:
        return str(error.detail)
    return WORDS.get(status) or f"Something went wrong on our side. Quote {request_id} when you report it."


def fault_body(service: str, status: int, message: str, *, kind: str = "", request_id: str = "") -> dict[str, Any]:
    """Return the JSON body of a fault in the format of `service`."""
    return FAULTS[service](status, message, kind or _title(status).replace(" ", ""), request_id)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """Turn any error of any API view into a response. No other code does this."""
    request: Request = context["request"]
    service = getattr(context["view"], "service", "novella")
    request_id = request_id_of(request._request)
    status = status_of(error, service)
    known = (errors.ActionFailed, errors.NotSupported, errors.Unavailable, errors.StorageFull)
    if status >= 500 and not isinstance(error, known):
        _log.error("request_failed request_id=%s path=%s", request_id, request.path, exc_info=error)
    details = getattr(error, "details", {})
    kind = str(details.get("type", type(error).__name__))
    message = message_of(error, status, request_id)
    body = fault_body(service, status, message, kind=kind, request_id=request_id)
    if "retry_after" in details and "overLimit" in body:  # compute and volume have it in the body too
        body["overLimit"]["retryAfter"] = str(details["retry_after"])
    response = Response(body, status=status)
    response.cause = error  # type: ignore[attr-defined]  # the audit log has it
    if "retry_after" in details:
        response["Retry-After"] = str(details["retry_after"])
    if status == 401:
        response["WWW-Authenticate"] = _challenge(request)
    return response


def _challenge(request: Request) -> str:
    return f'Keystone uri="{request.scheme}://{request.get_host()}/identity"'


def _outside_of_views(request: HttpRequest, status: int) -> HttpResponse | None:
    service = service_of(request.path_info)
    if service is None:
        return None
    request_id = request_id_of(request)
    message = WORDS.get(status) or message_of(Exception(), 500, request_id)
    return JsonResponse(fault_body(service, status, message, request_id=request_id), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 400, as JSON under the APIs."""
    return _outside_of_views(request, 400) or defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 403, as JSON under the APIs."""
    return _outside_of_views(request, 403) or defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 404, as JSON under the APIs."""
    return _outside_of_views(request, 404) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """500 as JSON under the APIs, as a page elsewhere: with the request id, from a template that needs nothing else."""
    again = request.get_full_path() if request.method == "GET" else ""  # a link cannot repeat a POST
    page = {"request_id": request_id_of(request), "again": again}
    return _outside_of_views(request, 500) or HttpResponseServerError(render_to_string("500.html", page))
