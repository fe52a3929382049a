"""A clock that stands still but for the pauses of the code under test."""

from __future__ import annotations


class MovedClock:
    """Replaces the module `time` of code that waits: each pause moves the clock and takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
