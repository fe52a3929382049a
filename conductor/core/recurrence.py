"""Recurring times by wall clock, in a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

HOURS, DAY, WEEK = "hours", "day", "week"
EVERY = (HOURS, DAY, WEEK)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
STEPS = (1, 2, 3, 4, 6, 8, 12)  # hours that end with the day
FULL_DAY = 24


@dataclass(frozen=True)
class Recurrence:
    """A recurring time: every `hours` hours, every day, or every week on `weekday`. `minute` of the day is one of the
    times.
    """

    every: str
    minute: int
    zone: str
    hours: int = 0
    weekday: str = ""

    def next_after(self, moment: datetime) -> datetime:
        """Return the first of these times after `moment`.

        A time that the clock skips in spring comes an hour later. One that it shows twice in autumn comes once.
        """
        today = moment.astimezone(ZoneInfo(self.zone)).date()
        times = (at for day in range(-1, 8) for at in self._times(today + timedelta(days=day)))
        return min(at for at in times if at > moment)

    def _times(self, day: date) -> Iterator[datetime]:
        if self.every == WEEK and WEEKDAYS[day.weekday()] != self.weekday:
            return
        step = self.hours if self.every == HOURS else FULL_DAY
        first = self.minute % (step * 60)
        for minute in range(first, FULL_DAY * 60, step * 60):
            at = datetime.combine(day, time(minute // 60, minute % 60), ZoneInfo(self.zone))
            yield at.astimezone(UTC)
