"""Base view of the placement API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any

from django.http import HttpRequest
from django.utils.http import http_date
from rest_framework.exceptions import NotAcceptable, UnsupportedMediaType
from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from portal.api.base import ApiRequest, ApiView
from portal.api.links import absolute
from portal.api.parsing import JsonParser
from portal.api.placement import faults
from portal.api.placement.microversions import VERSIONS
from portal.api.placement.policies import RULES
from portal.api.schema_parts import Schema
from portal.api.validation import first_error, path_of, sentence_of

ROOT = "/placement"
_JSON = "application/json"
_LONGEST_REASON = 400


class StrictJsonParser(JsonParser):
    """Parses JSON as everywhere, with the error messages that placement's clients look for."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except Invalid as error:
            raise Invalid(f"Malformed JSON: {error.message}", **error.details) from None


class PlacementView(ApiView):
    """Base view: placement's faults, policies and versions, and 406 for clients that do not accept JSON."""

    service = "placement"
    policies = RULES
    versions = VERSIONS
    http_method_names = ["get", "post", "put", "delete"]
    parser_classes = (StrictJsonParser,)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return faults.handle

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        super().initial(request, *args, **kwargs)
        _refuse_odd_length(request._request)

    def allow(self, rule: str, *, target_project_id: str | None = None) -> None:
        """`authorize` with the prefix that all rules of this API have."""
        self.authorize(f"placement:{rule}", target_project_id=target_project_id)

    def covers(self, first: str) -> bool:
        """Whether the version in use is at least `first`."""
        return self.request.microversion.covers(first)

    def readable(self) -> None:
        """Raises NotAcceptable for a client that does not accept JSON."""
        if not self.request._request.accepts(_JSON):
            raise NotAcceptable()

    def json_only(self) -> None:
        """Raises UnsupportedMediaType or Invalid for a body that is not JSON, before any lookup."""
        sent = self.request.content_type
        if not sent and self.request._request.headers.get("Content-Length", "0") not in ("", "0"):
            raise Invalid("A content-type header required for a body is missing: send application/json.")
        if (sent or "").split(";")[0].strip().lower() != _JSON:
            raise UnsupportedMediaType(sent)

    def body(self, schema: Schema) -> Any:
        """Return the validated body. Raises Invalid naming the field that does not fit."""
        return fitting(self.request.data, schema, "JSON does not validate")

    def query(self, schema: Schema) -> dict[str, str]:
        """Return the query's parameters by name, the last of each. Raises Invalid naming the one that does not fit."""
        given = {name: values[-1] for name, values in self.request.query_params.lists()}
        fitting(given, schema, "Invalid query string parameters")
        return given

    def answer(self, data: Any, *, status: int = 200, location: str | None = None) -> Response:
        """Return a response with data; from 1.15 on with the current time as `Last-Modified`."""
        return self._timed(self.done(status=status, location=location, data=data))

    def done(self, *, status: int = 204, location: str | None = None, data: Any = None) -> Response:
        """Return a response without caching headers; `location` is a path below the root of this API."""
        response = Response(data, status=status)
        if location is not None:
            response["Location"] = absolute(self.request, ROOT + location)
        return response

    def _timed(self, response: Response) -> Response:
        if self.covers("1.15"):
            response["Last-Modified"] = http_date()
            response["Cache-Control"] = "no-cache"
        return response


def fitting(data: Any, schema: Schema, what: str) -> Any:
    """Return `data` if it fits the schema. Raises Invalid that begins with `what` and names the field that does not."""
    error = first_error(data, schema)
    if error is None:
        return data
    # jsonschema's message names the value and the rule; ours names the field and the accepted values.
    reason = error.message[:_LONGEST_REASON]
    rule = "".join(f"[{part!r}]" for part in list(error.relative_schema_path)[:-1])
    raise Invalid(
        f"{what}: {reason}. {sentence_of(error)} Failed validating {error.validator!r} in schema{rule}",
        field=path_of(error),
    )


def _refuse_odd_length(request: HttpRequest) -> None:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdigit():
        raise Invalid("The content-length header must be an integer.")


class UnknownRoute(PlacementView):
    """404 with a body in the requested version, for paths that this API does not have."""

    http_method_names = ["get", "post", "put", "delete", "patch", "head", "options"]

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        request.microversion = VERSIONS.negotiate(request.headers)
        raise NotFound()
