"""The description of our own API (OpenAPI 3.1): what views say of their methods, put together by drf-spectacular.

class Locks(OwnView):
    @described({"locks": [LockView], "missing_cells": MISSING, **next_page("locks")}, query=FILTERS | PAGES)
    def get(self, request): ...
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from portal.api.own.shapes import Parts, Schema

Method = TypeVar("Method", bound=Callable[..., Any])

TEXT: Schema = {"type": "string", "maxLength": 255}
LINKS = [{"rel": str, "href": str, "type?": str}]
MISSING = Mapping[str, str]  # cells that did not answer, with the reason
FAULT = {"error": {"code": int, "title": str, "message": str, "request_id": str}}
PARAMETERS: Mapping[str, Schema] = {
    "limit": {"type": "integer", "minimum": 0},
    "since": {"type": "string", "format": "date-time"},
    "until": {"type": "string", "format": "date-time"},
    "after": {"type": "string", "maxLength": 2000, "description": "A cursor: cell1:40,default:12."},
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "The revision seen, in quotes.",
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 8, "maxLength": 128, "pattern": "^[!-~]+$"},
    "description": "A key of the client's own: the request is done once, and answered alike when it is repeated.",
}
WORDS: Mapping[int | str, str] = {
    200: "Done.",
    201: "Made.",
    204: "Done: there is nothing to say.",
    202: "Accepted: it goes on by itself.",
    "default": "A fault: the message says what is wrong, and the request id names it in our log.",
}
BodyOf = Schema | Callable[[Any], Schema] | None


@dataclass(frozen=True)
class Operation:
    """What one method takes and answers. `answer` is a shape (portal.api.own.shapes)."""

    answer: Any
    status: int = 200
    body: BodyOf = None  # of the view, where it depends on it
    query: Mapping[str, Schema] = field(default_factory=dict)
    takes_if_match: bool = False
    is_body_optional: bool = False
    others: Mapping[int | str, Any] = field(default_factory=dict)  # further answers that are no faults


def described(
    answer: Any, status: int = 200, *, query: Collection[str] | Mapping[str, Schema] = (), **more: Any
) -> Callable[[Method], Method]:
    """Say what a method of a view takes and answers; `more` are further fields of Operation.

    Names in `query` are text unless PARAMETERS knows better.
    """
    given = query if isinstance(query, Mapping) else {name: PARAMETERS.get(name, TEXT) for name in sorted(query)}
    operation = Operation(answer, status, query=given, **more)

    def mark(method: Method) -> Method:
        method.operation = operation  # type: ignore[attr-defined]
        return method

    return mark


def no_request(*args: Any) -> None:
    """Nobody asks for the description as a whole: what it says depends on no asker."""


def next_page(name: str) -> dict[str, Any]:
    """The link that lists have unless they end here."""
    return {f"{name}_links?": LINKS}


def several(*words: str) -> Schema:
    """A parameter that may be given several times."""
    return {"type": "array", "items": {"type": "string", "enum": list(words)} if words else TEXT}


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


def clean(schema: Any) -> Any:
    """A schema as others read it: our regular expressions end as Python's do."""
    if isinstance(schema, Mapping):
        return {
            name: value.replace(r"\Z", "$") if name == "pattern" and isinstance(value, str) else clean(value)
            for name, value in schema.items()
        }
    return [clean(one) for one in schema] if isinstance(schema, (list, tuple)) else schema
