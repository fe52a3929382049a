"""Reads of the event log: its end, and the events after a reader's cursor."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from django.db import connections
from django.db.models import Q

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.phrases import phrase
from conductor.db.compiled import uuid_text
from conductor.events import EventNotification
from conductor.journal import event_order, statements
from conductor.journal.models import Event
from conductor.services.workflows.types import EventView

__all__ = [
    "Cursor",
    "MissedEvents",
    "after",
    "ends",
    "here",
    "merged",
    "news",
    "of_runs",
    "read_cursor",
    "view",
    "visible",
    "write_cursor",
]

# A reader that is further behind reloads the whole page, which is cheaper.
LONGEST_REPLAY = 1000
LONGEST_CURSOR = 2000
LARGEST = 2**63 - 1

R = TypeVar("R")

Cursor = Mapping[str, int]


@dataclass(frozen=True)
class MissedEvents:
    """Events that a reader has missed: their numbers by database, and whether they are too many to replay."""

    numbers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    is_too_much: bool = False

    def up_to(self, place: Cursor) -> int:
        """Return how many of them are at `place` or before it."""
        return sum(number <= place.get(alias, 0) for alias, numbers in self.numbers.items() for number in numbers)


def here() -> Cursor:
    """Return the end of the log, per database. A database that is down is left out."""
    return ends()[0]


def ends() -> tuple[Cursor, frozenset[str]]:
    """Return the end of the log, and the databases that are down."""
    found = scatter_gather(lambda alias: event_order.end(Event.objects.using(alias)), journal_aliases())
    return found.answers, frozenset(found.failures)


def write_cursor(cursor: Cursor) -> str:
    """Write a cursor as text: `cell1:40,default:12`."""
    return ",".join(f"{alias}:{number}" for alias, number in sorted(cursor.items()))


def read_cursor(text: str) -> Cursor:
    """Parse a cursor; unknown databases are dropped. Raises Invalid for another form."""
    cursor: dict[str, int] = {}
    known = set(journal_aliases())
    for part in filter(None, text[:LONGEST_CURSOR].split(",")):
        alias, _, number = part.partition(":")
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise Invalid(phrase("Use a cursor such as default:12,cell1:40."), field="after")
        if alias in known:
            cursor[alias] = int(number)
    return cursor


def news(
    context: RequestContext, after: Cursor, *, topics: Sequence[str] = (), kinds: Sequence[str] = ()
) -> MissedEvents:
    """Return the events after a cursor: of some topics, or without any all that the caller may see.

    `kinds` are prefixes; without any, every kind counts.

    A database that the cursor does not name is read from its start.
    """
    wanted = Q(topic__in=topics) if topics else Q()
    if kinds:
        wanted &= reduce(or_, (Q(kind__startswith=prefix) for prefix in kinds))
    if not context.is_admin:
        wanted &= Q(project_id=context.project_id)

    def ask(alias: str) -> frozenset[int]:
        later = event_order.after(Event.objects.using(alias).filter(wanted), after.get(alias, 0))
        return frozenset(later.values_list("pk", flat=True)[: LONGEST_REPLAY + 1])

    numbers = scatter_gather(ask, journal_aliases()).answers
    return MissedEvents(numbers, sum(map(len, numbers.values())) > LONGEST_REPLAY)


def after(place: Cursor, limit: int, *, aliases: Sequence[str] | None = None) -> tuple[list[EventNotification], Cursor]:
    """Return every event after `place` in `aliases` or in all, at most `limit` of each, and the next cursor.

    It is for publishers: each event is returned once and none is left out, in whichever order transactions commit. A
    database that is down is left out, and its position stays.
    """

    def ask(alias: str) -> list[_Passed]:
        most = event_order.bound(alias)
        number = place.get(alias, 0)
        rows = statements.events_after(connections[alias], number, LARGEST if most is None else most, limit)
        return [_passed(alias, row) for row in rows]

    answers = scatter_gather(ask, journal_aliases() if aliases is None else aliases).answers
    found = [announcement for _, announcement in merged(answers, lambda row: row[0])]
    return found, {**place, **{alias: rows[-1][1].cursor for alias, rows in answers.items() if rows}}


_Passed = tuple[datetime, EventNotification]  # time, event


def _passed(alias: str, row: Sequence[Any]) -> _Passed:
    number, created_at, topic, kind, project_id, run_uuid, instance_uuid = row
    moment = created_at if created_at.tzinfo is not None else created_at.replace(tzinfo=UTC)
    return moment, EventNotification(
        alias=alias,
        cursor=number,
        topic=topic,
        kind=kind,
        project_id=project_id,
        run_uuid=uuid_text(run_uuid),
        instance_uuid=uuid_text(instance_uuid),
    )


def of_runs(runs: Mapping[str, Sequence[str]], after: Cursor, limit: int) -> tuple[list[EventView], Cursor]:
    """Return events about runs, oldest first, and the next cursor. `runs` maps databases to the uuids in them."""
    most = max(1, limit // max(1, len(runs)))
    rows, reached = _read(lambda alias: Q(run_uuid__in=runs[alias]), list(runs), after, most)
    return [view(row) for row in rows], reached


def visible(
    context: RequestContext, after: Cursor, limit: int, *, topic: str = "", kind: str = ""
) -> tuple[list[EventView], Cursor]:
    """Return events that the caller may see, oldest first, and the next cursor; `kind` is a prefix.

    About `limit` in all, in equal parts from each database: the next cursor continues after them.
    """
    wanted = Q() if context.is_admin else Q(project_id=context.project_id)
    if topic:
        wanted &= Q(topic=topic)
    if kind:
        wanted &= Q(kind__startswith=kind)
    aliases = journal_aliases()
    most = max(1, limit // max(1, len(aliases)))
    rows, reached = _read(lambda alias: wanted, aliases, after, most)
    return [view(row) for row in rows], reached


def _read(wanted: Callable[[str], Q], aliases: Sequence[str], after: Cursor, limit: int) -> tuple[list[Event], Cursor]:
    def ask(alias: str) -> list[Event]:
        events = Event.objects.using(alias).filter(wanted(alias))
        return list(event_order.after(events, after.get(alias, 0))[:limit])

    answers = scatter_gather(ask, aliases).answers
    found = list(merged(answers, lambda row: row.created_at))
    return found, {**after, **{alias: rows[-1].pk for alias, rows in answers.items() if rows}}


def merged(answers: Mapping[str, Sequence[R]], moment: Callable[[R], datetime]) -> Iterable[R]:
    """Merge logs by time. At equal times the API's log is first, as cells act on its decisions."""
    logs = [answers[alias] for alias in sorted(answers, key=lambda alias: (alias != API_ALIAS, alias))]
    return heapq.merge(*logs, key=moment)


def view(row: Event) -> EventView:
    """Convert an event to a view."""
    return EventView(
        alias=str(row._state.db),
        number=row.pk,
        topic=row.topic,
        kind=row.kind,
        created_at=row.created_at,
        run_uuid=str(row.run_uuid or ""),
        instance_uuid=str(row.instance_uuid or ""),
        data=row.data,
    )
