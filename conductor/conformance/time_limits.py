"""An end for what may hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_SECONDS = 0.001  # none would stop the clock
AGAIN_SECONDS = 0.5


@contextmanager
def at_most(seconds: float, failure: Exception) -> Iterator[None]:
    """Raises `failure` in whatever takes longer; what waits in C is interrupted when it comes back.

    It rings until it is heard: what is raised while Python cleans up (a callback of the collector, a `__del__`) is
    printed and forgotten. A process has one such clock: who set it before finds it as it would stand by now.
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
    finally:  # once more, should it have rung right there
        is_inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), LEAST_SECONDS), interval)
