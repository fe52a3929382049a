"""Serializers of the queries of lists.

    class LockFilter(PageFilter):
        kind = FilterField()

    query = LockFilter.parse(request)  # {"limit": 100, "marker": "", "kind": ""}; raises Invalid

Their values are for the query objects of the services. These are no query sets, so django-filter does not apply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.drainage import set_override
from rest_framework import serializers

from conductor.core.errors import Invalid
from portal.api.base import ApiRequest
from portal.api.novella.prototypes import prototype
from portal.api.pagination import MAX_LIMIT

DEFAULT_LIMIT = 100  # default page size: the rows of these lists are large


class FilterField(serializers.Field[Any, Any, Any, Any]):
    """A string in the query, at most `max_length` characters; empty when it is not given."""

    missing: Any = ""

    def __init__(self, *, max_length: int = 255, schema: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.max_length = max_length
        self.schema = dict(schema or {"type": "string", "maxLength": max_length})
        set_override(self, "field", self.schema)

    def read(self, texts: Sequence[str]) -> Any:
        """Parse the value of a parameter; raises Invalid."""
        return self.check(texts[-1])

    def check(self, text: str) -> str:
        """Return the string; raises Invalid if it is too long, or holds characters that databases do not store."""
        if len(text) > self.max_length or "\0" in text:
            message = f"{self.field_name} holds at most {self.max_length} characters, and no NUL among them."
            raise Invalid(message, field=self.field_name)
        return text


class ChoiceFilter(FilterField):
    """A string in the query that is one of `choices`."""

    def __init__(self, choices: Collection[str], **kwargs: Any) -> None:
        self.words = tuple(choices)
        super().__init__(**{"schema": {"type": "string", "enum": ["", *self.words]}, **kwargs})

    def check(self, text: str) -> str:
        super().check(text)
        if text and self.words and text not in self.words:
            message = f"Unknown {self.field_name} {text[:60]}; it is one of {', '.join(self.words)}."
            raise Invalid(message, field=self.field_name)
        return text


class FlagFilter(ChoiceFilter):
    """`true` or `false` in the query; false when it is not given."""

    missing = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(("true", "false"), **kwargs)

    def read(self, texts: Sequence[str]) -> bool:
        return self.check(texts[-1]) == "true"


class ManyFilter(ChoiceFilter):
    """A string that may be given several times; one of `choices` where there are any."""

    missing = ()

    def __init__(self, choices: Collection[str] = (), **kwargs: Any) -> None:
        item = {"type": "string", "enum": list(choices)} if choices else {"type": "string", "maxLength": 255}
        super().__init__(choices, schema={"type": "array", "items": item}, **kwargs)

    def read(self, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.check(text) for text in texts)


class TimestampFilter(FilterField):
    """A time in the query; without a zone it is UTC."""

    missing = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(schema={"type": "string", "format": "date-time"}, **kwargs)

    def read(self, texts: Sequence[str]) -> datetime | None:
        return time_of(texts[-1], str(self.field_name)) if texts[-1] else None


class LimitFilter(FilterField):
    """Number of rows per page, 0 to 1000, by default `default`; a higher number is taken as 1000."""

    def __init__(self, *, default: int = DEFAULT_LIMIT, **kwargs: Any) -> None:
        super().__init__(schema={"type": "integer", "minimum": 0}, **kwargs)
        self.missing = default

    def read(self, texts: Sequence[str]) -> int:
        text = texts[-1]
        if not (text.isascii() and text.isdigit() and len(text) <= 255):
            where = "Invalid input for query parameter limit."
            message = f"{where} Value: '{text[:60]}'. It must be an integer of at least 0."
            raise Invalid(message, field="limit")
        return min(int(text), MAX_LIMIT)


class MarkerFilter(FilterField):
    """Marker of a page: the id of the last row of the page before."""

    def check(self, text: str) -> str:
        if len(text) > self.max_length:
            raise Invalid("Invalid input for query parameter marker. It is too long.", field="marker")
        return text


class CursorFilter(FilterField):
    """A position in the logs of events; the event log checks it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=2000, help_text="A cursor: cell1:40,default:12.", **kwargs)

    def check(self, text: str) -> str:
        return text


class QuerySerializer(serializers.Serializer[Any]):
    """The query of a list; unknown parameters are refused by name."""

    @classmethod
    def parse(cls, request: ApiRequest) -> dict[str, Any]:
        """Return a value for every field; raises Invalid naming a parameter that is unknown or does not fit."""
        known = prototype(cls).fields
        unknown = sorted(set(request.query_params) - set(known))
        if unknown:
            message = f"There is no filter {unknown[0][:60]}; there are {', '.join(sorted(known))}."
            raise Invalid(message, field="query")
        sent = {name: request.query_params.getlist(name) for name in known}
        return {name: field.read(sent[name]) if sent[name] else field.missing for name, field in known.items()}


class PageFilter(QuerySerializer):
    """The query of a paginated list."""

    limit = LimitFilter()
    marker = MarkerFilter()


def time_of(text: str, name: str) -> datetime:
    """Parse a time; without a zone it is UTC. Raises Invalid naming the field."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is not a time such as 2026-01-31T12:00:00Z: {text[:60]}.", field=name) from None
