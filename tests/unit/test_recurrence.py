"""Recurring times: by local time, also in nights with a change to or from summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.recurrence import DAY, HOURS, STEPS, WEEK, WEEKDAYS, Recurrence

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("recurrence", "moment", "following"),
    [
        (Recurrence(DAY, 120, "UTC"), "2026-01-31T01:59", "2026-01-31T02:00"),
        (Recurrence(DAY, 120, "UTC"), "2026-01-31T02:00", "2026-02-01T02:00"),
        (Recurrence(DAY, 30, "Asia/Kolkata"), "2026-01-30T18:59", "2026-01-30T19:00"),
        (Recurrence(DAY, 150, BERLIN), "2026-03-28T02:00", "2026-03-29T01:30"),  # 02:30 is leapt over
        (Recurrence(DAY, 150, BERLIN), "2026-03-29T01:30", "2026-03-30T00:30"),
        (Recurrence(DAY, 150, BERLIN), "2026-10-25T00:30", "2026-10-26T01:30"),  # 02:30 comes twice, and counts once
        (Recurrence(WEEK, 0, "UTC", weekday="friday"), "2026-01-30T00:00", "2026-02-06T00:00"),
        (Recurrence(WEEK, 0, "UTC", weekday="friday"), "2026-01-29T23:00", "2026-01-30T00:00"),
        (Recurrence(HOURS, 90, "UTC", hours=6), "2026-01-30T00:00", "2026-01-30T01:30"),
        (Recurrence(HOURS, 20 * 60, "UTC", hours=6), "2026-01-30T00:00", "2026-01-30T02:00"),
        (Recurrence(HOURS, 90, "UTC", hours=6), "2026-01-30T19:30", "2026-01-31T01:30"),
    ],
)
def test_the_next_time(recurrence: Recurrence, moment: str, following: str) -> None:
    assert recurrence.next_after(at(moment)) == at(following)


@given(
    st.sampled_from([DAY, *(str(step) for step in STEPS), *WEEKDAYS]),
    st.integers(0, 1439),
    st.sampled_from(["UTC", BERLIN, "Asia/Kolkata", "America/New_York", "Pacific/Apia"]),
    st.integers(0, 10 * 365 * 24 * 60).map(lambda minutes: at("2020-01-01T00:00") + timedelta(minutes=minutes)),
)
def test_the_next_time_is_later_and_within_one_period(what: str, minute: int, zone: str, moment: datetime) -> None:
    hours = int(what) if what.isdigit() else 0
    weekday = what if what in WEEKDAYS else ""
    every = HOURS if hours else WEEK if weekday else DAY
    found = Recurrence(every, minute, zone, hours, weekday).next_after(moment)
    longest = timedelta(hours=hours or (24 * 7 if weekday else 24)) + timedelta(hours=1)  # and a changed clock
    assert timedelta(0) < found - moment <= longest
