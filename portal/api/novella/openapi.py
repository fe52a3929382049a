"""The OpenAPI 3.1 document of our own API: drf-spectacular reads the serializers; this module adds our conventions.

Loaded when the document is requested: that is rare, and the library imports half of a test framework.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import ResponseEnvelope
from portal.api.novella.fields import MapField
from portal.api.novella.operations import Operation

IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="The revision seen, in quotes.")
KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 8, "maxLength": 128, "pattern": "^[!-~]+$"},
    OpenApiParameter.HEADER,
    description="A key of the client's own: the request is done once, and answered alike when it is repeated.",
)
STATUSES: Mapping[str, str] = {
    "200": "Done.",
    "201": "Made.",
    "202": "Accepted: it goes on by itself.",
    "204": "Done, without a body.",
    "default": "A fault: the message says what is wrong, and the request id names it in the log.",
}


class FaultBody(serializers.Serializer[Any]):
    """The body of a fault."""

    code = serializers.IntegerField()
    title = serializers.CharField()
    message = serializers.CharField()
    request_id = serializers.CharField()


class Fault(ResponseEnvelope):
    error = FaultBody()


class NovellaSchema(AutoSchema):
    """Describes the methods that are marked with `describes`; other methods are left out."""

    @property
    def _operation(self) -> Operation:
        return cast(Operation, getattr(self._method, "operation", None))

    @property
    def _method(self) -> Any:
        return getattr(self.view, getattr(self.view, "action", None) or self.method.lower(), None)

    def is_excluded(self) -> bool:
        return self._operation is None

    def get_operation_id(self) -> str:
        words = re.findall(r"[A-Za-z0-9]+", self.path.removeprefix("/api/"))
        return "-".join([self.method.lower(), *words]).replace("_", "-")

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/").split("/")[0]]

    def get_description(self) -> str:  # type: ignore[override]
        return " ".join((inspect.getdoc(self._method) or inspect.getdoc(type(self.view)) or "").split())

    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self.method in getattr(self.view, "public_methods", ()) else [{"token": []}]

    def get_override_parameters(self) -> list[Any]:
        found: list[Any] = [self._operation.query] if self._operation.query else []
        found += [IF_MATCH] if self._operation.takes_if_match else []
        return found + ([KEY] if hasattr(self._method, "takes_key") else [])

    def get_request_serializer(self) -> Any:
        body = self._operation.body
        return body if body is None or isinstance(body, type) else body(self.view)

    def get_response_serializers(self) -> Any:
        return {**{str(status): shown for status, shown in self._operation.responses.items()}, "default": Fault}

    def _get_response_for_code(self, serializer: Any, status_code: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        is_envelope = isinstance(serializer, type) and issubclass(serializer, ResponseEnvelope)
        inherited: Any = super()
        schema = inherited._map_serializer(serializer, "response") if is_envelope else serializer
        found: dict[str, Any] = inherited._get_response_for_code(schema, status_code, *args, **kwargs)
        return {**found, "description": STATUSES[status_code]}

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False  # a list is inside an object, under its name

    def _map_serializer_field(self, field: Any, *args: Any, **kwargs: Any) -> Any:
        inherited: Any = super()
        found = inherited._map_serializer_field(field, *args, **kwargs)
        if isinstance(field, MapField) and field.longest_name:
            found["propertyNames"] = {"minLength": 1, "maxLength": field.longest_name}
        return found

    def _map_basic_serializer(self, serializer: Any, direction: str) -> dict[str, Any]:
        """Disallow additional properties in objects."""
        inherited: Any = super()
        found: dict[str, Any] = {
            **inherited._map_basic_serializer(serializer, direction),
            "additionalProperties": False,
        }
        if isinstance(serializer, BodySerializer):
            found |= {**serializer.schema_rules, **({"minProperties": 1} if serializer.needs_a_field else {})}
        return found
