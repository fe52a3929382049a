"""/api/schema: the description of this API; /api/docs: the same as a page."""

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
from portal.api.own.openapi import described
from portal.api.own.view import OwnView
from portal.askers import asker_of
from portal.request_ids import request_id_of


@functools.cache
def document() -> dict[str, Any]:
    """The whole description; it is the same for everybody."""
    from drf_spectacular.generators import SchemaGenerator  # see portal.api.own.description

    make: Any = SchemaGenerator
    found: dict[str, Any] = make(patterns=[path("api/", include("portal.api.own.urls"))]).get_schema(public=True)
    return found


class SchemaDocument(OwnView):
    public_methods = frozenset({"GET"})

    @described(dict[str, Any])
    def get(self, request: ApiRequest) -> Response:
        """This description, as OpenAPI 3.1."""
        return Response(document())


@functools.cache
def _groups() -> list[tuple[str, list[dict[str, Any]]]]:
    """Operations as the page shows them, by the first part of their path."""
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


class Reference(OwnView):
    public_methods = frozenset({"GET"})

    def get(self, request: ApiRequest) -> HttpResponse:
        """Every operation of our own API, for people; whoever has signed in finds the portal around it."""
        page = request._request
        asker = asker_of(page.session, request_id_of(page)) if hasattr(page, "session") else None
        if asker is not None:
            page.asker = asker  # type: ignore[attr-defined]
        parts = [(name, json.dumps(part, indent=2)) for name, part in document()["components"]["schemas"].items()]
        return render(page, "api_reference.html", {"groups": _groups(), "parts": parts})
