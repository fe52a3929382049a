"""Calls the APIs in this process, as their clients do: same routes, policies, errors and responses.

A page thus shows and does what `openstack …` and a script would show and do, and a form can display the call that it
makes. The caller comes from the session; no token is issued for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote, urlencode

from django.core.handlers.wsgi import WSGIRequest
from django.urls import resolve

from conductor.core.errors import Forbidden, Invalid, NotFound, NovellaError, Unavailable
from portal.api.authentication import set_internal_caller
from portal.pages.permissions import PageRequest

COPIED = ("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "REMOTE_ADDR", "wsgi.url_scheme")
Query = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A request to an API; `secrets` are names of values in the body that pages hide.

    `version` is the microversion if it is not the latest; `data` is sent unchanged, instead of a body; `reason` goes to
    the audit log.
    """

    method: str
    path: str
    body: Any = None
    secrets: frozenset[str] = frozenset()
    version: str = "latest"
    media_type: str = "application/json"
    data: Any = field(default=None, repr=False, compare=False)
    reason: str = ""

    @property
    def body_text(self) -> str:
        """Return the body for display, without its secrets."""
        return "" if self.body is None else json.dumps(_without(self.body, self.secrets), indent=2, ensure_ascii=False)


@dataclass(frozen=True)
class ApiResponse:
    """A response. `message` and `field` describe the error; both are empty on success."""

    status: int
    body: Any = field(default=None, repr=False)
    message: str = ""
    field: str = ""

    @property
    def is_good(self) -> bool:
        return self.status < 400


def ask(request: PageRequest, path: str, query: Query | Iterable[tuple[str, Any]] = ()) -> Any:
    """Return the body of a GET. Raises NotFound, Forbidden, Invalid or Unavailable with the API's message."""
    words = urlencode(list(query.items()) if isinstance(query, Mapping) else list(query), doseq=True)
    answer = send(request, Call("GET", path), words)
    if answer.is_good:
        return answer.body
    kinds: Mapping[int, type[NovellaError]] = {404: NotFound, 403: Forbidden, 400: Invalid, 406: Invalid}
    raise kinds.get(answer.status, Unavailable)(answer.message)


def send(request: PageRequest, call: Call, query: str = "") -> ApiResponse:
    """Make a call; an error response is returned too."""
    path, _, own_query = call.path.partition("?")
    inner = _request(request, replace(call, path=path), query or own_query)
    view, args, kwargs = resolve(unquote(path))
    response = view(inner, *args, **kwargs)
    body = getattr(response, "data", None)
    if response.status_code < 400:
        return ApiResponse(response.status_code, body)
    error = getattr(response, "cause", None)
    sentence = error.message if isinstance(error, NovellaError) else _message(body)
    details = getattr(error, "details", {})
    return ApiResponse(response.status_code, body, sentence, str(details.get("field") or ""))


def _request(request: PageRequest, call: Call, query: str) -> WSGIRequest:
    body = b"" if call.body is None else json.dumps(call.body).encode()
    length = call.data.size if call.data is not None else len(body)
    environ = {name: request.META[name] for name in COPIED if name in request.META}
    environ |= {
        "REQUEST_METHOD": call.method,
        "PATH_INFO": unquote(call.path).encode().decode("latin-1"),  # in the encoding of WSGI
        "QUERY_STRING": query,
        "CONTENT_TYPE": call.media_type if length else "",
        "CONTENT_LENGTH": str(length) if length else "",
        "HTTP_OPENSTACK_API_VERSION": f"compute {call.version},volume {call.version}",
        "wsgi.input": call.data.file if call.data is not None else BytesIO(body),
        "wsgi.url_scheme": request.scheme,
    }
    if call.reason:
        environ["HTTP_NOVELLA_REASON"] = quote(call.reason)
    inner = WSGIRequest(environ)
    inner.request_id = request.caller.request_id  # type: ignore[attr-defined]
    set_internal_caller(inner, request.user, request.caller)
    return inner


def _message(body: Any) -> str:
    """Return the message of a fault in any API's format."""
    if isinstance(body, Mapping):
        for value in (body.get("message"), *body.values()):
            found = value if isinstance(value, str) else _message(value)
            if found:
                return found
    return ""


def _without(body: Any, secrets: frozenset[str]) -> Any:
    if isinstance(body, Mapping):
        return {name: "…" if name in secrets and value else _without(value, secrets) for name, value in body.items()}
    return [_without(one, secrets) for one in body] if isinstance(body, list) else body
