"""An end for what may hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float, failure: Exception) -> Iterator[None]:
    """Raises `failure` in whatever takes longer; what waits in C is interrupted when it comes back."""

    def over(number: int, frame: object) -> None:
        raise failure

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
