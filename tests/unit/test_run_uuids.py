"""Uuids of workflows: they rise, and their short forms differ."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from conductor.core import identifiers
from conductor.core.identifiers import new_run_uuid


def test_uuids_rise_and_differ_in_their_first_digits() -> None:
    names = [new_run_uuid() for _ in range(5_000)]
    assert names == sorted(names)
    assert len({str(name)[:8] for name in names}) == len(names)
    assert {(name.version, name.variant) for name in names} == {(8, uuid.RFC_4122)}


def test_many_threads_get_no_two_alike() -> None:
    with ThreadPoolExecutor(8) as threads:
        names = list(threads.map(lambda _: str(new_run_uuid())[:8], range(4_000)))
    assert len(set(names)) == len(names)


def test_a_clock_that_goes_back_takes_none_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_run_uuid()
    an_hour_ago = time.time_ns() - 3_600 * 10**9
    monkeypatch.setattr(identifiers.time, "time_ns", lambda: an_hour_ago)
    assert new_run_uuid() > before


def test_the_clock_begins_anew_after_twelve_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identifiers, "_last", (1 << 63) - 1)
    assert str(new_run_uuid()).startswith("00000000")
