"""Calls the APIs in this process, for kinds of resources without a reader: same routes, policies and responses.

The caller comes from the session; no token is issued for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote, urlencode

from django.core.handlers.wsgi import WSGIRequest
from django.urls import resolve

from conductor.core.errors import Forbidden, Invalid, NotFound, NovellaError, Unavailable
from portal.api.authentication import set_internal_caller
from portal.pages.permissions import PageRequest
from portal.pages.resources.model import ActionResult, Call

COPIED = ("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "REMOTE_ADDR", "wsgi.url_scheme")
Query = Mapping[str, Any]


def ask(request: PageRequest, path: str, query: Query | Iterable[tuple[str, Any]] = ()) -> Any:
    """Return the body of a GET. Raises NotFound, Forbidden, Invalid or Unavailable with the API's message."""
    words = urlencode(list(query.items()) if isinstance(query, Mapping) else list(query), doseq=True)
    answer = send(request, Call("GET", path), words)
    if answer.is_good:
        return answer.body
    kinds: Mapping[int, type[NovellaError]] = {404: NotFound, 403: Forbidden, 400: Invalid, 406: Invalid}
    raise kinds.get(answer.status, Unavailable)(answer.message)


def send(request: PageRequest, call: Call, query: str = "") -> ActionResult:
    """Make a call; an error response is returned too."""
    path, _, own_query = call.path.partition("?")
    inner = _request(request, replace(call, path=path), query or own_query)
    view, args, kwargs = resolve(unquote(path))
    response = view(inner, *args, **kwargs)
    body = getattr(response, "data", None)
    if response.status_code < 400:
        return ActionResult(response.status_code, body)
    error = getattr(response, "cause", None)
    sentence = error.message if isinstance(error, NovellaError) else _message(body)
    details = getattr(error, "details", {})
    return ActionResult(response.status_code, body, sentence, str(details.get("field") or ""))


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
