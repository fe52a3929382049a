"""Waiting in tests: for a state, with a limit that no slow machine reaches.

    wait_until("the server is ACTIVE", lambda: server().status == "ACTIVE")
    await wait_until_async("the socket is closed", lambda: socket.is_closed)
    assert_stays("no second command is sent", lambda: len(sent) == 1, seconds=0.5)

A limit exists only so that a test that waits in vain ends with a message. It is no expectation about the duration: what
a test expects is a state. This is the only module of `tests/` that sleeps or reads elapsed time;
`tests/architecture/test_waiting.py` refuses both elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 0.4


def wait_until(
    what: str,
    condition: Callable[[], Any],
    seconds: float = WAIT_SECONDS,
    *,
    pause: float = 0.02,
    details: Callable[[], object] = str,
) -> Any:
    """Return the first truthy result of `condition`.

    Polling takes processor time from the work that is awaited, so the pause grows with the time waited.

    Args:
        what: The awaited state, for the failure's message.
        condition: Asked again and again, at least once.
        seconds: The limit.
        pause: The shortest pause in seconds; a longer one leaves a real guest the processor from the beginning.
        details: Called when the limit is reached; its result is appended to the message.

    Raises:
        AssertionError: The condition was false until the limit.
    """
    began_at = time.monotonic()
    while True:
        found = condition()
        if found:
            return found
        waited = time.monotonic() - began_at
        if waited >= seconds:
            raise AssertionError(f"not within {seconds:g} seconds: {what} {details()}".rstrip())
        time.sleep(max(pause, min(waited / 10, LONGEST_PAUSE_SECONDS)))


async def wait_until_async(
    what: str, condition: Callable[[], Any], seconds: float = WAIT_SECONDS, *, pause: float = 0.02
) -> Any:
    """Return the same as `wait_until`, for a test that runs in an event loop."""
    began_at = time.monotonic()
    while True:
        found = condition()
        if found:
            return found
        waited = time.monotonic() - began_at
        if waited >= seconds:
            raise AssertionError(f"not within {seconds:g} seconds: {what}")
        await asyncio.sleep(max(pause, min(waited / 10, LONGEST_PAUSE_SECONDS)))


def assert_stays(what: str, condition: Callable[[], Any], seconds: float = 0.5, *, pause: float = 0.02) -> None:
    """Fail when `condition` becomes false within `seconds`.

    For what must not happen. A slow machine can only let such a fault pass unseen, never fail a correct product.
    """
    until = time.monotonic() + seconds
    while True:
        assert condition(), f"no longer so: {what}"
        if time.monotonic() >= until:
            return
        time.sleep(pause)


def take_time(seconds: float) -> None:
    """Sleep as slow work does: in a driver, a plugin or a server that a test makes slow.

    Never to wait for a state: the test must pass whatever the duration turns out to be.
    """
    time.sleep(seconds)


class Stopwatch:
    """Elapsed seconds since its creation, for limits that a helper passes on. No test asserts on it."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_at
