"""Filters of lists by time: `created_at` before, at or after a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

SECOND = timedelta(seconds=1)
# Each takes a column, and a moment's first instant and the first one after it.
COMPARISONS: dict[str, Callable[[str, datetime, datetime], Q]] = {
    "gt": lambda column, first, after: Q(**{f"{column}__gte": after}),
    "gte": lambda column, first, after: Q(**{f"{column}__gte": first}),
    "lt": lambda column, first, after: Q(**{f"{column}__lt": first}),
    "lte": lambda column, first, after: Q(**{f"{column}__lt": after}),
    "eq": lambda column, first, after: Q(**{f"{column}__gte": first, f"{column}__lt": after}),
    "neq": lambda column, first, after: Q(**{f"{column}__lt": first}) | Q(**{f"{column}__gte": after}),
}


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """A column compared with a moment by one of COMPARISONS. `unit`: how exactly the API shows the column."""

    column: str
    comparison: str
    moment: datetime
    unit: timedelta = timedelta(microseconds=1)

    def condition(self) -> Q:
        """Return the rows that match. A row counts as what the API shows: cut to the unit."""
        first = self.moment if self.unit < SECOND else self.moment.replace(microsecond=0)
        try:
            after = first + self.unit
        except OverflowError:  # the last moment of the calendar
            after = first
        return COMPARISONS[self.comparison](self.column, first, after)
