"""A time limit within another code's longer time limit."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from conductor.conformance import time_limits
from conductor.conformance.time_limits import at_most
from tests.waiting import take_time, wait_until

OUTER_SECONDS = 3600.0
FAR_SECONDS = 600.0


class Late(Exception):
    pass


@pytest.fixture
def outer() -> Iterator[list[int]]:
    """A timer that fires after an hour, and records its signal."""
    rang: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rang.append(number))
    clock = signal.setitimer(signal.ITIMER_REAL, OUTER_SECONDS)
    yield rang
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *clock)


def test_work_beyond_its_limit_ends_and_the_outer_limit_stays(outer: list[int]) -> None:
    with pytest.raises(Late), at_most(0.01, Late()):
        take_time(60)
    with at_most(FAR_SECONDS, Late()):
        pass
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert OUTER_SECONDS - FAR_SECONDS < left < OUTER_SECONDS
    assert not outer


def test_a_longer_end_that_is_due_meanwhile_comes_right_after(
    outer: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time_limits, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with at_most(FAR_SECONDS, Late()):
        now[0] += OUTER_SECONDS + 1
        assert not outer
    wait_until("the longer time limit is over", lambda: outer)


def test_a_failure_that_was_swallowed_comes_again(outer: list[int]) -> None:
    """Errors in a garbage collector callback are dropped: a check of plugins once hung for ever because of that."""

    class Swallows:
        def __del__(self) -> None:
            _, again = signal.getitimer(signal.ITIMER_REAL)
            signal.setitimer(signal.ITIMER_REAL, 0.001, again)  # the limit is reached here, on any machine
            take_time(60)

    swallowed: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, swallowed.append

    def hang() -> None:
        Swallows()
        take_time(60)

    try:
        with pytest.raises(Late), at_most(FAR_SECONDS, Late()):
            hang()
    finally:
        sys.unraisablehook = before
    assert len(swallowed) == 1
    assert not outer
