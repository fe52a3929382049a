"""Cells that operators cut off: nothing is asked of them and nothing new is sent there until that is lifted."""

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
from conductor.core.states import CELL_IN_QUARANTINE

LOOK_EVERY_SECONDS = 1.0  # every list asks: a process looks this often, and goes by what it saw


@dataclass(frozen=True)
class Quarantine:
    """Who cut a cell off, why, and when."""

    cell: str
    by: str
    reason: str
    since: datetime


class _Seen:
    """What this process knows."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: Mapping[str, Quarantine] = {}
        self.due_at = 0.0


_seen = _Seen()


def all_now() -> Mapping[str, Quarantine]:
    """The cells that are cut off, as of a second ago at most."""
    if time.monotonic() >= _seen.due_at:
        with suppress(OperationalError, InterfaceError):  # then what was known goes on
            look()
    return _seen.found


def holds(alias: str) -> bool:
    """Whether a cell is cut off."""
    return alias in all_now()


def refuse(alias: str) -> None:
    """Raises CellUnavailable where a cell is cut off."""
    if holds(alias):
        raise CellUnavailable(f"Cell {alias} is in quarantine: nothing is changed there until an operator lifts it.")


def failures(aliases: Iterable[str]) -> dict[str, str]:
    """Those of the cells that are cut off, as cells that do not answer are named."""
    found = all_now()
    return {alias: CELL_IN_QUARANTINE for alias in aliases if alias in found} if found else {}


def look() -> None:
    """Read who is cut off. Whoever changed it does so at once; other processes follow."""
    with _seen.lock:
        _seen.due_at = time.monotonic() + LOOK_EVERY_SECONDS
        rows = CellMapping.objects.filter(quarantined_at__isnull=False)
        _seen.found = {
            row.name: Quarantine(row.name, row.quarantined_by, row.quarantine_reason, row.quarantined_at)
            for row in rows
            if row.quarantined_at is not None
        }


def forget() -> None:
    """Know of none, and look no more until somebody says so: for tests, which count statements."""
    _seen.found, _seen.due_at = {}, float("inf")
