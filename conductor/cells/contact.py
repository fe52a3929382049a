"""When each cell last answered this process; that one does not is said once."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

log = logging.getLogger(__name__)

_gate = threading.Lock()
_answered_at: dict[str, datetime] = {}
_silent: set[str] = set()


def answered(alias: str) -> None:
    """A cell has just answered."""
    _answered_at[alias] = datetime.now(UTC)
    if alias in _silent:
        with _gate:
            _silent.discard(alias)
        log.warning("cell answers again: cell=%s", alias)


def failed(alias: str, error: Exception | None = None) -> None:
    """A cell has not answered. That is said once, not with every question while it lasts."""
    with _gate:
        is_new = alias not in _silent
        _silent.add(alias)
    if is_new:
        log.warning("cell does not answer: cell=%s", alias, exc_info=error)


def last_answered(alias: str) -> datetime | None:
    """When a cell last answered this process; None for never."""
    return _answered_at.get(alias)
