"""What views of our own API say of their methods; portal.api.own.description makes OpenAPI 3.1 of it.

class Locks(OwnView):
    @described({"locks": [LockView], "missing_cells": MISSING, **next_page("locks")}, query=FILTERS | PAGES)
    def get(self, request): ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from portal.api.own.shapes import Schema

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


def clean(schema: Any) -> Any:
    """A schema as others read it: our regular expressions end as Python's do."""
    if isinstance(schema, Mapping):
        return {
            name: value.replace(r"\Z", "$") if name == "pattern" and isinstance(value, str) else clean(value)
            for name, value in schema.items()
        }
    return [clean(one) for one in schema] if isinstance(schema, (list, tuple)) else schema
