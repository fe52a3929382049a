"""The description of our own API (OpenAPI 3.1): what views say of their methods, put together by drf-spectacular.

Loaded when somebody asks for it: few do, and the library brings half of a test framework along.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from portal.api.own.openapi import FAULT, IF_MATCH, KEY, WORDS, Operation, clean
from portal.api.own.shapes import Parts, Schema


class OwnSchema(AutoSchema):
    """Describes views by what `described` says of their methods; one that says nothing is left out."""

    @property
    def _operation(self) -> Operation | None:
        found: Operation | None = getattr(getattr(self.view, self.method.lower(), None), "operation", None)
        return found

    def is_excluded(self) -> bool:
        return self._operation is None

    def get_operation_id(self) -> str:
        words = re.findall(r"[A-Za-z0-9]+", self.path.removeprefix("/api/"))
        return "-".join([self.method.lower(), *words]).replace("_", "-")

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/").split("/")[0]]

    def get_summary(self) -> str | None:
        return None

    def get_description(self) -> str:  # type: ignore[override]
        method = getattr(self.view, self.method.lower())
        return " ".join((inspect.getdoc(method) or inspect.getdoc(type(self.view)) or "").split())

    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self.method in getattr(self.view, "public_methods", ()) else [{"token": []}]

    def _get_parameters(self) -> list[dict[str, Any]]:
        operation = cast(Operation, self._operation)
        named = re.findall(r"{(\w+)}", self.path)
        found = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named]
        found += [{"name": name, "in": "query", "schema": clean(schema)} for name, schema in operation.query.items()]
        found += [IF_MATCH] if operation.takes_if_match else []
        return found + ([KEY] if self._takes_key else [])

    @property
    def _takes_key(self) -> bool:
        return hasattr(getattr(self.view, self.method.lower()), "takes_key")

    def _get_request_body(self, direction: str = "request") -> dict[str, Any] | None:
        operation = cast(Operation, self._operation)
        body = operation.body(self.view) if callable(operation.body) else operation.body
        if body is None:
            return None
        content = {"application/json": {"schema": clean(body)}}
        return {"required": not operation.is_body_optional, "content": content}

    def _get_response_bodies(self, direction: str = "response") -> dict[str, Any]:
        operation, parts = cast(Operation, self._operation), Parts(self._register)
        answers: dict[int | str, Any] = {operation.status: operation.answer, **operation.others, "default": FAULT}
        return {str(status): _answer(parts, status, shape) for status, shape in answers.items()}

    def _register(self, name: str, schema: Schema) -> None:
        component = ResolvedComponent(  # type: ignore[no-untyped-call]
            name=name, type=ResolvedComponent.SCHEMA, object=name, schema=schema
        )
        self.registry.register_on_missing(component)


def _answer(parts: Parts, status: int | str, shape: Any) -> dict[str, Any]:
    """None as the shape of an answer without a body."""
    content = {} if shape is None else {"content": {"application/json": {"schema": parts.schema(shape)}}}
    return {"description": WORDS[status], **content}
