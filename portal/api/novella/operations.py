"""Descriptions of our viewsets' methods; `portal.api.novella.openapi` generates OpenAPI from them.

    @describes(page("locks", LockSerializer), query=LockFilter)
    def list(self, request): ...

drf-spectacular's own `extend_schema` would load that whole library, 7 MB and half a second, into every web process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rest_framework.serializers import Serializer

Method = TypeVar("Method", bound=Callable[..., Any])
Kind = type[Serializer[Any]]
Response = Kind | Mapping[str, Any] | None  # a serializer, a JSON schema, or no body


@dataclass(frozen=True)
class Operation:
    """Request and response types of a method."""

    responses: Mapping[int, Response]  # by status
    body: Kind | Callable[[Any], Kind] | None = None  # a function of the view, where it depends on the route
    query: Kind | None = None
    takes_if_match: bool = False


def describes(
    response: Response,
    status: int = 200,
    *,
    others: Mapping[int, Response] | None = None,
    **more: Any,
) -> Callable[[Method], Method]:
    """Declare request and response types of a method; `more` are further fields of Operation."""
    operation = Operation({status: response, **(others or {})}, **more)

    def mark(method: Method) -> Method:
        method.operation = operation  # type: ignore[attr-defined]
        return method

    return mark
