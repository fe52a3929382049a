"""An end for what may hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_SECONDS = 0.001  # none would stop the clock


@contextmanager
def at_most(seconds: float, failure: Exception) -> Iterator[None]:
    """Raises `failure` in whatever takes longer; what waits in C is interrupted when it comes back.

    A process has one such clock: who set it before finds it as it would stand by now.
    """

    def over(number: int, frame: object) -> None:
        raise failure

    before = signal.signal(signal.SIGALRM, over)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), LEAST_SECONDS), interval)
