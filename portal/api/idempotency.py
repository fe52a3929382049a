"""`Idempotency-Key`: a POST that a client may safely repeat until it gets a response.

    @idempotent                                # or @idempotent(is_one_commit=True)
    def post(self, request, …):

Without the header nothing changes. With it the request is executed once (`conductor.services.operations.idempotency`);
a caller that repeats it gets the same response, with `Idempotency-Replayed: true`.

The request id is derived from the key. So every repetition returns the id of the same workflow, even when the first
process died and another one handles the repetition.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import re
from collections.abc import Callable
from typing import Any, overload

from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from conductor.core.errors import Invalid
from conductor.services.operations import idempotency
from conductor.services.operations.idempotency import IdempotentRequest, StoredResponse
from portal.api.base import ApiRequest

_log = logging.getLogger(__name__)
HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"\A[\x21-\x7e]{8,128}\Z")

Method = Callable[..., Response]


@overload
def idempotent(method: Method) -> Method: ...


@overload
def idempotent(*, is_one_commit: bool) -> Callable[[Method], Method]: ...


def idempotent(method: Method | None = None, *, is_one_commit: bool = False) -> Any:
    """Make a method idempotent.

    `is_one_commit`: it writes only to the API database, in one transaction with its response.
    """
    if method is None:
        return functools.partial(idempotent, is_one_commit=is_one_commit)

    @functools.wraps(method)
    def wrapped(view: Any, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get(HEADER, "")
        if not key:
            return method(view, request, *args, **kwargs)
        if not _KEY.match(key):
            raise Invalid(f"{HEADER} is 8 to 128 printable characters without spaces, such as a uuid.", field=HEADER)

        def work(name: str) -> StoredResponse:
            request.once = name
            _take_id(request, name)
            return _answer(method(view, request, *args, **kwargs))

        requested = IdempotentRequest(key, _text_of(request))
        found = idempotency.once(request.context, requested, work, is_one_commit=is_one_commit)
        _take_id(request, found.name)
        answer = found.response
        response = Response(answer.body, status=answer.status, headers=dict(answer.headers))
        request.is_replayed = found.is_replayed
        if found.is_replayed:
            response[REPLAYED] = "true"
        return response

    wrapped.takes_key = True  # type: ignore[attr-defined]  # shown in the OpenAPI document
    return wrapped


def _take_id(request: ApiRequest, name: str) -> None:
    """Give the request the id that all repetitions of it have."""
    request_id = f"req-{name}"
    if request.request_id != request_id:
        _log.info("request_id=%s repeated_request_id=%s", request.request_id, request_id)
        request._request.request_id = request_id  # type: ignore[attr-defined]
        request.context = dataclasses.replace(request.context, request_id=request_id)


def _text_of(request: ApiRequest) -> str:
    """Return a canonical text of the request, which does not depend on whitespace or member order of its body."""
    version = str(getattr(request, "microversion", ""))
    condition = request.headers.get("If-Match", "")
    return json.dumps([request.method, request.get_full_path(), version, condition, request.data], sort_keys=True)


def _answer(response: Response) -> StoredResponse:
    body = json.loads(json.dumps(response.data, cls=JSONEncoder))
    return StoredResponse(response.status_code, body, dict(response.items()))
