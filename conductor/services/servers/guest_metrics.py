"""Guest metrics: stores the counters that hosts report of their guests, and returns those of one server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from django.db.models.fields.json import KeyTransform

from conductor.cell_db.models import GuestCount, Migration
from conductor.cells.targeting import target_cell
from conductor.core.context import RequestContext
from conductor.core.guest_usage import NAMES, unpack_usage
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import database_now, write_tx
from conductor.rpc.messages import GuestsCounted
from conductor.services.servers.queries import get

MOST_COUNTS = 600  # of one server: two days of them
LONGEST_GAP_SECONDS = 900.0  # a longer gap between samples gives no rate
COUNTERS = tuple(name for name in NAMES if name != "memory_mb")


@dataclass(frozen=True)
class GuestSample:
    """Counters of a guest at a time in seconds since 1970; counters that were not reported are left out."""

    at: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class GuestRate:
    """Usage per second, from `begin` until `end`; of memory, the amount at the end."""

    begin: float
    end: float
    figures: Mapping[str, float]


def record(cell: str, message: GuestsCounted) -> None:
    """Store a report with one statement for all guests of a host; idempotent."""
    guests = {uuid: values for uuid, values in message.guests.items() if uuid_or_none(uuid) and _are_numbers(values)}
    if not guests or not isfinite(message.counted_at):
        return
    row = GuestCount(host=message.host, counted_at=message.counted_at, guests=guests, created_at=database_now())
    with target_cell(cell), write_tx(cell):
        GuestCount.objects.using(cell).bulk_create([row], ignore_conflicts=True)


def samples(context: RequestContext, instance_uuid: str) -> list[GuestSample]:
    """Return a server's newest samples, oldest first, also from former hosts. Raises NotFound, CellUnavailable."""
    view = get(context, instance_uuid)
    if not view.cell or view.is_partial:
        return []
    with target_cell(view.cell):
        left = Migration.objects.using(view.cell).filter(instance_uuid=view.uuid)
        hosts = {view.host, *left.values_list("source_host", flat=True)} - {""}
        mine = KeyTransform(view.uuid, "guests")
        rows = GuestCount.objects.using(view.cell).filter(host__in=hosts, guests__has_key=view.uuid)
        newest = rows.order_by("-counted_at").values_list("counted_at", mine)[:MOST_COUNTS]
        return [GuestSample(at, unpack_usage(values)) for at, values in reversed(newest)]


def rates(found: Sequence[GuestSample]) -> list[GuestRate]:
    """Return the rates between samples, except where a counter was reset with its guest."""
    return [made for before, after in pairwise(found) if (made := _rate(before, after)) is not None]


def _rate(before: GuestSample, after: GuestSample) -> GuestRate | None:
    seconds = after.at - before.at
    if not 0 < seconds <= LONGEST_GAP_SECONDS:
        return None
    both = [name for name in COUNTERS if name in before.figures and name in after.figures]
    if any(after.figures[name] < before.figures[name] for name in both):
        return None
    per_second = {name: (after.figures[name] - before.figures[name]) / seconds for name in both}
    memory = {name: after.figures[name] for name in ("memory_mb",) if name in after.figures}
    return GuestRate(before.at, after.at, {**per_second, **memory})


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(value is None or (isinstance(value, int | float) and isfinite(value)) for value in values)
