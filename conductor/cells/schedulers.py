"""Schedulers that run as services of their own: their last reports, and whether each can be called.

Their reports are rows of cell0, as those of the API-level conductors are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from conductor.cell_db.models import Service
from conductor.cells.lookup import CELL0
from conductor.core.membership import life_of
from conductor.core.plain_json import known_fields
from conductor.db.transactions import database_now, database_time, write_tx

BINARY = "nova-scheduler"
REPORTS_MISSED = 3.0  # heartbeats without a report, after which a scheduler counts as slow


@dataclass(frozen=True)
class Scheduler:
    """A scheduler by its newest report.

    Attributes:
        waiting: Requests in its queue; the oldest one waits for `oldest_seconds`.
        decisions: Number since it started; together they took `seconds`.
        worker: Its process.
        has_ended: This process has died or was stopped.
    """

    name: str
    worker: str
    age_seconds: float
    waiting: int = 0
    oldest_seconds: float = 0.0
    decisions: int = 0
    seconds: float = 0.0
    has_ended: bool = False

    @property
    def is_alive(self) -> bool:
        return not self.has_ended and self.age_seconds < settings.NOVELLA_HOST_DOWN_SECONDS

    @property
    def is_slow(self) -> bool:
        """Whether it lives, but reports late or leaves requests waiting beyond their deadline."""
        is_late = self.age_seconds > REPORTS_MISSED * settings.NOVELLA_HEARTBEAT_SECONDS
        return is_late or self.oldest_seconds > settings.NOVELLA_SCHEDULER_SECONDS


def record(name: str, service_version: int, figures: Mapping[str, Any]) -> None:
    """Record the report of a scheduler. The first one creates its row. `figures` are fields of `Scheduler`."""
    values = {"version": service_version, "figures": {**figures, "has_ended": False}, "last_seen_at": database_now()}
    with write_tx(CELL0):
        if not Service.objects.using(CELL0).filter(binary=BINARY, host=name).update(**values):
            made = {**values, "availability_zone": "internal", "created_at": database_now()}
            Service.objects.using(CELL0).get_or_create(binary=BINARY, host=name, defaults=made)


def all_known() -> list[Scheduler]:
    """Return all schedulers that have ever reported, by name."""
    rows = list(Service.objects.using(CELL0).filter(binary=BINARY).order_by("host"))
    now = database_time(CELL0) if rows else None
    return [
        Scheduler(**_known(row.figures or {}), name=row.host, age_seconds=(now - row.last_seen_at).total_seconds())
        for row in rows
        if now is not None
    ]


def _known(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that this release knows: a newer scheduler may report more."""
    return {"worker": "", **known_fields(Scheduler, figures)}


def note_end(life: str) -> str:
    """Record that a process has ended, if it was a scheduler.

    Returns:
        The scheduler's name. Empty if the process was none, or if its end is known.
    """
    ended = next((one for one in all_known() if life_of(one.worker) == life and not one.has_ended), None)
    if ended is None:
        return ""
    with write_tx(CELL0):
        row = Service.objects.using(CELL0).select_for_update().get(binary=BINARY, host=ended.name)
        figures = row.figures or {}
        if figures.get("worker") != ended.worker or figures.get("has_ended"):  # its next life, or another process did
            return ""
        row.figures = {**figures, "has_ended": True}
        row.save(using=CELL0, update_fields=["figures"])
    return ended.name
