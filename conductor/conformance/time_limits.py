"""Time limits for code that may hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_SECONDS = 0.001  # zero would disable the timer
AGAIN_SECONDS = 0.5


@contextmanager
def at_most(seconds: float, failure: Exception) -> Iterator[None]:
    """Raise `failure` in code that takes longer; code that waits in C is interrupted when it returns.

    The timer repeats until the exception gets through: one raised in Python's cleanup (a callback of the collector, a
    `__del__`) is printed and ignored. A process has one such timer: the previous one is restored with its remaining
    time.
    """
    is_inside = True

    def over(number: int, frame: object) -> None:
        if is_inside:
            raise failure

    before = signal.signal(signal.SIGALRM, over)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        try:
            yield
        finally:
            is_inside = False
    finally:  # once more, in case it fired right there
        is_inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), LEAST_SECONDS), interval)
