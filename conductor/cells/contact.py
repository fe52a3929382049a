"""Time of each cell's last answer to this process; outages are logged once."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

log = logging.getLogger(__name__)

_lock = threading.Lock()
_answered_at: dict[str, datetime] = {}
_down: set[str] = set()


def answered(alias: str) -> None:
    """Record that a cell has just answered."""
    _answered_at[alias] = datetime.now(UTC)
    if alias in _down:
        with _lock:
            _down.discard(alias)
        log.warning("cell answers again: cell=%s", alias)


def failed(alias: str, error: Exception | None = None) -> None:
    """Record that a cell has not answered. Logged once per outage, not for every query."""
    with _lock:
        is_new = alias not in _down
        _down.add(alias)
    if is_new:
        log.warning("cell does not answer: cell=%s", alias, exc_info=error)


def last_answered(alias: str) -> datetime | None:
    """Return when a cell last answered this process; None for never."""
    return _answered_at.get(alias)
