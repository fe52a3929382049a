"""Adaptive randomization: a scheduler that loses claims draws among more of the best hosts for a while.

Concurrent schedulers with the same hosts find the same best host. When it is nearly full, all but one of them lose
their claim. A scheduler without competitors loses no claim, and always takes the best host.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from django.conf import settings

from conductor.core.scheduling.pipeline import Pipeline

WIDENS = 16.0  # factor for each lost claim
NARROWS = 0.98  # factor for each granted claim: constant when one of about 140 claims is lost
QUIET_SECONDS = 60.0  # without a lost claim: no competitor is left


class ContentionTracker:
    """Measures the contention with other schedulers; thread-safe. One per process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._width = 1.0
        self._lost_at = -math.inf
        self._epoch = ""

    def width(self, epoch: str) -> int:
        """Return the number of best hosts to draw from. A new `epoch`, which identifies the database, resets it."""
        with self._lock:
            is_over = epoch != self._epoch or self._clock() - self._lost_at > QUIET_SECONDS
            if is_over:
                self._width, self._epoch = 1.0, epoch
            return int(self._width)

    def lost(self) -> None:
        """Record a lost claim."""
        with self._lock:
            self._width = min(self._width * WIDENS, float(max(1, settings.NOVELLA_CONTENTION_SUBSET_SIZE)))
            self._lost_at = self._clock()

    def won(self) -> None:
        """Record a granted claim."""
        with self._lock:
            self._width = max(1.0, self._width * NARROWS)


tracker = ContentionTracker()


def widened(pipeline: Pipeline, *, epoch: str, is_batch: bool, lost: int) -> Pipeline:
    """Return the pipeline with a subset size large enough to avoid lost claims.

    A batch spreads over many hosts by itself, so it draws from more hosts only after a lost claim.
    """
    width = 1 if is_batch and not lost else tracker.width(epoch)
    return pipeline if width <= pipeline.host_subset_size else replace(pipeline, host_subset_size=width)
