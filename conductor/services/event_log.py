"""The event log's readers: where it stands now, and what came after a place that a reader remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Max, Q

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.journal.models import Event
from conductor.services.values import EventView

# A reader that is further behind than this reads the whole page again: that is cheaper.
LONGEST_REPLAY = 1000
LONGEST_CURSOR = 2000

Cursor = Mapping[str, int]


@dataclass(frozen=True)
class News:
    """What a reader has missed: how many events (counted up to LONGEST_REPLAY + 1), and whether that is too many."""

    count: int
    is_too_much: bool


def here() -> Cursor:
    """The end of the log, per database. A database that does not answer is left out."""
    found = scatter_gather(
        lambda alias: Event.objects.using(alias).aggregate(last=Max("pk"))["last"] or 0, journal_aliases()
    )
    return found.answers


def write_cursor(cursor: Cursor) -> str:
    """`cell1:40,default:12`: a cursor as text."""
    return ",".join(f"{alias}:{number}" for alias, number in sorted(cursor.items()))


def read_cursor(text: str) -> Cursor:
    """The inverse of `write_cursor`; databases that are not known are dropped. Raises Invalid for another form."""
    cursor: dict[str, int] = {}
    known = set(journal_aliases())
    for part in filter(None, text[:LONGEST_CURSOR].split(",")):
        alias, _, number = part.partition(":")
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise Invalid("A cursor looks like default:12,cell1:40.", field="after")
        if alias in known:
            cursor[alias] = int(number)
    return cursor


def news(context: RequestContext, after: Cursor, *, topics: Sequence[str] = (), kinds: Sequence[str] = ()) -> News:
    """How much happened after `after`: to some topics, or without any to all that the asker may see.

    `kinds` are prefixes; without any, every kind counts.

    A database that the cursor does not name is read from its start.
    """
    wanted = Q(topic__in=topics) if topics else Q()
    if kinds:
        wanted &= reduce(or_, (Q(kind__startswith=prefix) for prefix in kinds))
    if not context.is_admin:
        wanted &= Q(project_id=context.project_id)

    def ask(alias: str) -> int:
        later = Event.objects.using(alias).filter(wanted, pk__gt=after.get(alias, 0))
        return later.values("pk")[: LONGEST_REPLAY + 1].count()

    count = sum(scatter_gather(ask, journal_aliases()).answers.values())
    return News(count, count > LONGEST_REPLAY)


def of_runs(runs: Mapping[str, Sequence[str]], after: Cursor, limit: int) -> list[EventView]:
    """Events about runs, oldest first. `runs` maps a database to the uuids of the runs in it."""

    def ask(alias: str) -> list[EventView]:
        rows = Event.objects.using(alias).filter(run_uuid__in=runs[alias], pk__gt=after.get(alias, 0))
        return [_view(alias, row) for row in rows.order_by("pk")[:limit]]

    gathered = scatter_gather(ask, list(runs))
    found = [event for events in gathered.answers.values() for event in events]
    # Of two logs that tell of the same moment, the API's comes first: cells act on what it decided.
    return sorted(found, key=lambda e: (e.created_at, e.alias != API_ALIAS, e.alias, e.number))[:limit]


def _view(alias: str, row: Event) -> EventView:
    return EventView(
        alias=alias,
        number=row.pk,
        topic=row.topic,
        kind=row.kind,
        created_at=row.created_at,
        run_uuid=str(row.run_uuid or ""),
        instance_uuid=str(row.instance_uuid or ""),
        data=row.data,
    )
