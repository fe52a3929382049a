"""What an agent notes of its driver between two reports, and tells once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.compute.driver_account import DriverAccount
from conductor.core.driver_doings import MOST_CALLS
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, StaleToken
from conductor.plugins import notes as noted
from conductor.plugins.notes import Notes
from tests.tiny_driver import TinyDriver


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.0125
        return self.now


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> DriverAccount:
    monkeypatch.setattr("conductor.compute.driver_account.notes", Notes())
    return DriverAccount("tiny", Clock())


def call(account: DriverAccount, does: Callable[[], Any] = lambda: None, secrets: tuple[str, ...] = ()) -> None:
    with account.call("spawn_instance", secrets):
        does()


def raising(error: Exception) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


def test_calls_and_their_lengths_are_told_once_and_again_when_they_could_not_be(account: DriverAccount) -> None:
    assert account.take() == {}
    call(account)
    taken = account.take()
    assert taken == {"milliseconds": [12.5], "faults": 0, "notes": []}
    assert account.take() == {}
    call(account)
    account.give_back(taken)
    assert account.take()["milliseconds"] == [12.5, 12.5]


def test_what_a_driver_raises_is_noted_with_where_and_without_what_is_foreign_or_secret(account: DriverAccount) -> None:
    for error in (RuntimeError("/etc/shadow"), DriverError("The disk is full of sesame."), NotImplementedError("todo")):
        with pytest.raises(type(error)):
            call(account, raising(error), secrets=("sesame",))
    taken = account.take()
    assert (taken["faults"], len(taken["milliseconds"])) == (3, 3)
    texts = [one["text"] for one in taken["notes"]]
    assert texts == [
        "RuntimeError in spawn_instance",
        "DriverError in spawn_instance: The disk is full of [hidden].",
        "NotImplementedError in spawn_instance",
    ]
    assert all(one["place"].endswith(" in fail") for one in taken["notes"])
    account.give_back(taken)
    assert [one["text"] for one in account.take()["notes"]] == texts


@pytest.mark.parametrize("error", [BuildAborted("no"), GuestMissing(), StaleToken()])
def test_what_is_not_its_fault_is_only_a_call(account: DriverAccount, error: Exception) -> None:
    with pytest.raises(type(error)):
        call(account, raising(error))
    assert account.take() == {"milliseconds": [12.5], "faults": 0, "notes": []}


def test_it_is_bounded(account: DriverAccount) -> None:
    for _ in range(MOST_CALLS + 5):
        call(account)
    assert len(account.take()["milliseconds"]) == MOST_CALLS


def test_a_driver_has_a_log_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    noted.listen()
    DriverAccount("tiny").take()  # what drivers of that name have said before, in this very process
    TinyDriver().log.warning("the rack hums, token=sesame")
    assert [record.name for record in caplog.records] == ["novella.plugins.driver.tiny"]
    (line,) = DriverAccount("tiny").take()["notes"]
    assert (line["source"], line["level"], line["text"]) == ("line", "warning", "the rack hums, token=•••")
