"""How crowded it is: who loses claims to others draws among more of the best hosts for a while, and nobody else does.

Schedulers that look at the same hosts all find the same best one, and when it is nearly full all but one of them lose.
Who decides alone loses no claim, and always takes the best.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from django.conf import settings

from conductor.core.scheduling.pipeline import Pipeline

WIDENS = 16.0  # times, with each claim that is lost
NARROWS = 0.98  # times, with each claim that is won: one in about 140 is lost where the two are even
QUIET_SECONDS = 60.0  # without a lost claim: nobody else is in the way any more


class Crowd:
    """What a process has learned of those who decide beside it; safe for threads. One per process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._width = 1.0
        self._lost_at = -math.inf
        self._epoch = ""

    def width(self, epoch: str) -> int:
        """Among how many of the best hosts to draw now. `epoch` tells databases apart."""
        with self._lock:
            is_over = epoch != self._epoch or self._clock() - self._lost_at > QUIET_SECONDS
            if is_over:
                self._width, self._epoch = 1.0, epoch
            return int(self._width)

    def lost(self) -> None:
        """A claim was lost to another."""
        with self._lock:
            self._width = min(self._width * WIDENS, float(max(1, settings.NOVELLA_CROWD_SUBSET_SIZE)))
            self._lost_at = self._clock()

    def won(self) -> None:
        """A claim was granted."""
        with self._lock:
            self._width = max(1.0, self._width * NARROWS)


crowd = Crowd()


def widened(pipeline: Pipeline, *, epoch: str, is_batch: bool, lost: int) -> Pipeline:
    """The pipeline that draws among as many as it takes not to meet the others.

    A batch spreads over many hosts by itself: it draws only once it has lost.
    """
    width = 1 if is_batch and not lost else crowd.width(epoch)
    return pipeline if width <= pipeline.host_subset_size else replace(pipeline, host_subset_size=width)
