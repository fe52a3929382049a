"""Conditions of lists by time (conductor.core.time_filters)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db.models import Q

from conductor.core.time_filters import TimeFilter

# Each takes a column, and a moment's first instant and the first one after it.
_CONDITIONS: dict[str, Callable[[str, datetime, datetime], Q]] = {
    "gt": lambda column, first, after: Q(**{f"{column}__gte": after}),
    "gte": lambda column, first, after: Q(**{f"{column}__gte": first}),
    "lt": lambda column, first, after: Q(**{f"{column}__lt": first}),
    "lte": lambda column, first, after: Q(**{f"{column}__lt": after}),
    "eq": lambda column, first, after: Q(**{f"{column}__gte": first, f"{column}__lt": after}),
    "neq": lambda column, first, after: Q(**{f"{column}__lt": first}) | Q(**{f"{column}__gte": after}),
}


def condition(wanted: TimeFilter) -> Q:
    """Return the rows that match the filter."""
    return _CONDITIONS[wanted.comparison](wanted.column, *wanted.bounds())
