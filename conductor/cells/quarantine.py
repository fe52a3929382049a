"""Cell quarantine: a cell that an operator cuts off gets no queries and no new servers until it is lifted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from conductor.api_db.models import CellMapping
from conductor.core.errors import CellUnavailable
from conductor.core.messages import message
from conductor.core.states import CELL_IN_QUARANTINE

LOOK_EVERY_SECONDS = 1.0  # every list needs the quarantines, so a process caches them and reads them this often


@dataclass(frozen=True)
class CellQuarantine:
    """Quarantine of a cell: who began it, when, and for which reason."""

    cell: str
    by: str
    reason: str
    since: datetime


class _QuarantineCache:
    """The cache of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: Mapping[str, CellQuarantine] = {}
        self.due_at = 0.0


_seen = _QuarantineCache()


def all_now() -> Mapping[str, CellQuarantine]:
    """Return the cells in quarantine, at most a second old."""
    if time.monotonic() >= _seen.due_at:
        with suppress(OperationalError, InterfaceError):  # then the cached state stays
            look()
    return _seen.found


def holds(alias: str) -> bool:
    """Whether a cell is in quarantine."""
    return alias in all_now()


def refuse(alias: str) -> None:
    """Raise CellUnavailable if a cell is in quarantine."""
    if holds(alias):
        raise CellUnavailable(message("cell.no_changes", cell=alias))


def failures(aliases: Iterable[str]) -> dict[str, str]:
    """Return the cells in quarantine with a reason, in the form of cells that do not answer."""
    found = all_now()
    return {alias: CELL_IN_QUARANTINE for alias in aliases if alias in found} if found else {}


def look() -> None:
    """Read the quarantines. The process that changes them does so at once; others follow within a second."""
    with _seen.lock:
        _seen.due_at = time.monotonic() + LOOK_EVERY_SECONDS
        rows = CellMapping.objects.filter(quarantined_at__isnull=False)
        _seen.found = {
            row.name: CellQuarantine(row.name, row.quarantined_by, row.quarantine_reason, row.quarantined_at)
            for row in rows
            if row.quarantined_at is not None
        }


def forget() -> None:
    """Drop the cache, and read only on request: for tests, which count statements."""
    _seen.found, _seen.due_at = {}, float("inf")
