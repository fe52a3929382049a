"""Rate limits: token buckets in the memory of each process, off unless the operator sets a rate.

A bucket holds one minute's worth of requests, so a project that was idle may send these at once. Each process counts by
itself: N web processes behind one port let up to N times the rate through, and less where the load is uneven.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest

from conductor.core.errors import TooManyRequests

READS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_BUCKETS = 20_000  # the least recently used one is dropped first: it is full by then, or nearly
OF_A_STREAM = "novella.page_of_a_stream"  # in an ASGI scope: an internal request of a stream, not counted


class Buckets:
    """Token buckets by key. Each refills up to one minute's worth."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, per_minute: int) -> float:
        """Take a token. Returns 0, or the seconds until there is one."""
        now = self._clock()
        with self._lock:
            level, seen = self._levels.pop(key, (float(per_minute), now))
            level = min(per_minute, level + (now - seen) * per_minute / 60)
            is_enough = level >= 1
            self._levels[key] = (level - 1 if is_enough else level, now)
            if len(self._levels) > MOST_BUCKETS:
                self._levels.popitem(last=False)
        return 0.0 if is_enough else (1 - level) * 60 / per_minute


buckets = Buckets()


def charge(request: HttpRequest, who: str) -> None:
    """Count a request of `who`, "project:<id>" or "address:<ip>". Raises TooManyRequests with the seconds to wait."""
    if OF_A_STREAM not in request.META.get("asgi.scope", ()):
        charge_for(str(request.method), who)


def charge_for(method: str, who: str) -> None:
    """Count a request by its method, also one that a page's form stands for. Raises TooManyRequests."""
    _charge(f"requests {who}", settings.NOVELLA_REQUESTS_PER_MINUTE, "requests")
    if method not in READS:
        _charge(f"changes {who}", settings.NOVELLA_CHANGES_PER_MINUTE, "requests that change something")


def charge_at(key: str, per_minute: int, what: str) -> None:
    """Count against a bucket of its own, regardless of the operator's rates. Raises TooManyRequests."""
    _charge(key, per_minute, what)


def _charge(key: str, per_minute: int, what: str) -> None:
    wait = buckets.take(key, per_minute) if per_minute else 0.0
    if wait:
        seconds = max(1, math.ceil(wait))
        raise TooManyRequests(f"More than {per_minute} {what} a minute; try again in {seconds} s.", retry_after=seconds)
