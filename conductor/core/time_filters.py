"""Filters of lists by time: `created_at` before, at or after a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

SECOND = timedelta(seconds=1)
COMPARISONS = ("gt", "gte", "lt", "lte", "eq", "neq")


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """A column compared with a moment by one of COMPARISONS. `unit`: how exactly the API shows the column."""

    column: str
    comparison: str
    moment: datetime
    unit: timedelta = timedelta(microseconds=1)

    def bounds(self) -> tuple[datetime, datetime]:
        """Return the moment's first instant, and the first instant after it. The API shows times truncated to the
        unit.
        """
        first = self.moment if self.unit < SECOND else self.moment.replace(microsecond=0)
        try:
            return first, first + self.unit
        except OverflowError:  # the last moment of the calendar
            return first, first
