"""Driver statistics of an agent between two reports, each reported once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.compute.driver_statistics import DriverStatistics
from conductor.core.compute_driver import MAX_CALLS_PER_REPORT
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, StaleToken
from conductor.plugins import log as noted
from conductor.plugins.log import Notes
from tests.tiny_driver import TinyDriver


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.0125
        return self.now


@pytest.fixture
def statistics(monkeypatch: pytest.MonkeyPatch) -> DriverStatistics:
    monkeypatch.setattr("conductor.compute.driver_statistics.notes", Notes())
    return DriverStatistics("tiny", Clock())


def call(statistics: DriverStatistics, does: Callable[[], Any] = lambda: None, secrets: tuple[str, ...] = ()) -> None:
    with statistics.measure("spawn_instance", secrets):
        does()


def raising(error: Exception) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


def test_calls_and_their_durations_are_reported_once_and_again_after_a_failed_report(
    statistics: DriverStatistics,
) -> None:
    assert statistics.take() == {}
    call(statistics)
    taken = statistics.take()
    assert taken == {"milliseconds": [12.5], "faults": 0, "notes": []}
    assert statistics.take() == {}
    call(statistics)
    statistics.restore(taken)
    assert statistics.take()["milliseconds"] == [12.5, 12.5]


def test_driver_errors_are_recorded_with_their_place_and_without_secrets(
    statistics: DriverStatistics,
) -> None:
    for error in (RuntimeError("/etc/shadow"), DriverError("The disk is full of sesame."), NotImplementedError("todo")):
        with pytest.raises(type(error)):
            call(statistics, raising(error), secrets=("sesame",))
    taken = statistics.take()
    assert (taken["faults"], len(taken["milliseconds"])) == (3, 3)
    texts = [one["text"] for one in taken["notes"]]
    assert texts == [
        "RuntimeError in spawn_instance",
        "DriverError in spawn_instance: The disk is full of [hidden].",
        "NotImplementedError in spawn_instance",
    ]
    assert all(one["place"].endswith(" in fail") for one in taken["notes"])
    statistics.restore(taken)
    assert [one["text"] for one in statistics.take()["notes"]] == texts


@pytest.mark.parametrize("error", [BuildAborted("no"), GuestMissing(), StaleToken()])
def test_errors_that_are_no_fault_of_the_driver_count_as_calls_only(
    statistics: DriverStatistics, error: Exception
) -> None:
    with pytest.raises(type(error)):
        call(statistics, raising(error))
    assert statistics.take() == {"milliseconds": [12.5], "faults": 0, "notes": []}


def test_driver_statistics_are_bounded(statistics: DriverStatistics) -> None:
    for _ in range(MAX_CALLS_PER_REPORT + 5):
        call(statistics)
    assert len(statistics.take()["milliseconds"]) == MAX_CALLS_PER_REPORT


def test_a_driver_has_a_log_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    noted.listen()
    DriverStatistics("tiny").take()  # reset: drivers of that name ran in this process before
    TinyDriver().log.warning("the rack hums, token=sesame")
    assert [record.name for record in caplog.records] == ["novella.plugins.driver.tiny"]
    (line,) = DriverStatistics("tiny").take()["notes"]
    assert (line["source"], line["level"], line["text"]) == ("line", "warning", "the rack hums, token=•••")
