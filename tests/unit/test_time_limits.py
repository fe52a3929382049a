"""A time limit within another code's longer time limit."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import pytest

from conductor.conformance.time_limits import at_most


class Late(Exception):
    pass


@pytest.fixture
def outer() -> Iterator[list[float]]:
    """A timer that fires after a minute, and records when."""
    rang: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    clock = signal.setitimer(signal.ITIMER_REAL, 60)
    yield rang
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *clock)


def test_what_takes_longer_ends_and_the_longer_end_stays(outer: list[float]) -> None:
    with pytest.raises(Late), at_most(0.01, Late()):
        time.sleep(20)
    with at_most(5, Late()):
        pass
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 30 < left < 60
    assert not outer


def test_a_longer_end_that_is_due_meanwhile_comes_right_after(outer: list[float]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with at_most(20, Late()):
        time.sleep(0.05)
        assert not outer
    deadline = time.monotonic() + 20
    while not outer and time.monotonic() < deadline:
        time.sleep(0.01)
    assert outer


def test_a_failure_that_was_swallowed_comes_again(outer: list[float]) -> None:
    """Errors in a garbage collector callback are dropped: a check of plugins once hung for ever because of that."""

    class Swallows:
        def __del__(self) -> None:
            time.sleep(0.2)

    swallowed: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, swallowed.append

    def hang() -> None:
        Swallows()
        time.sleep(20)

    try:
        with pytest.raises(Late), at_most(0.05, Late()):
            hang()
    finally:
        sys.unraisablehook = before
    assert len(swallowed) == 1
    assert not outer
