"""Parses filters of lists by time: `created_at=gt:2026-01-31T12:00:00,lt:2026-02-01`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.http import QueryDict

from conductor.core.errors import Invalid
from conductor.core.time_filters import COMPARISONS, TimeFilter


def parse_times(given: QueryDict, names: Sequence[str], *, unit: timedelta | None = None) -> tuple[TimeFilter, ...]:
    """Return the filters by the columns `names`; all of them must match. Without an operator, a time means `eq`.

    Raises Invalid for a text that is no time.
    """
    found = []
    for name in names:
        for word in (word for text in given.getlist(name) for word in text.split(",")):
            comparison, _, text = word.partition(":")
            if comparison not in COMPARISONS:
                comparison, text = "eq", word
            found.append(TimeFilter(name, comparison, _moment(name, text), **({"unit": unit} if unit else {})))
    return tuple(found)


def _moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(
            f"Invalid input for query parameter {name}. Value: '{text[:60]}'. It must be a time.", field=name
        ) from None
