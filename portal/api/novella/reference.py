"""/api/schema: the OpenAPI document of this API; /api/docs: the same as a page."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import include, path
from rest_framework.response import Response

from portal.api.base import ApiRequest
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet
from portal.request_ids import request_id_of
from portal.session_callers import caller_of


@functools.cache
def document() -> dict[str, Any]:
    """Return the whole document; it is the same for all callers."""
    from drf_spectacular.generators import SchemaGenerator  # loaded on demand: see portal.api.novella.openapi

    make: Any = SchemaGenerator
    found: dict[str, Any] = make(patterns=[path("api/", include("portal.api.novella.urls"))]).get_schema(public=True)
    return found


@functools.cache
def _groups() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the operations as the page shows them, by the first part of their path."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for where, methods in document()["paths"].items():
        for method, operation in methods.items():
            answers = [
                (status, _schema_of(one)) for status, one in operation["responses"].items() if status != "default"
            ]
            row = {
                "id": operation["operationId"],
                "path": where,
                "method": method.upper(),
                "description": operation["description"],
                "parameters": operation.get("parameters", []),
                "body": _schema_of(operation.get("requestBody")),
                "answers": answers,
            }
            groups.setdefault(operation["tags"][0], []).append(row)
    return sorted(groups.items())


def _schema_of(holder: Mapping[str, Any] | None) -> str:
    return (
        json.dumps(holder["content"]["application/json"]["schema"], indent=2) if holder and "content" in holder else ""
    )


class ReferenceViewSet(NovellaViewSet):
    public_methods = frozenset({"GET"})

    @describes({"type": "object", "additionalProperties": {}})
    def retrieve(self, request: ApiRequest) -> Response:
        """Show this document, as OpenAPI 3.1."""
        return Response(document())

    def read(self, request: ApiRequest) -> HttpResponse:
        """Show every operation as a page; signed-in callers see it inside the portal."""
        page = request._request
        caller = caller_of(page.session, request_id_of(page)) if hasattr(page, "session") else None
        if caller is not None:
            page.caller = caller  # type: ignore[attr-defined]
        parts = [(name, json.dumps(part, indent=2)) for name, part in document()["components"]["schemas"].items()]
        return render(page, "api_reference.html", {"groups": _groups(), "parts": parts})


def no_request(*args: Any) -> None:
    """Return no request, as the document does not depend on the caller."""
