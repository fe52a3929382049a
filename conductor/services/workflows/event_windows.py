"""Windows of the events of some workflows: several logs in one order, however many events there are.

The position of an event in that order counts from 1 and never changes. A log is read from its nearer end, and of most
events only the number and the time are read. The number of queries is the same for each window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet, Window

from conductor.cells.lookup import API_ALIAS
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.journal import event_order
from conductor.journal.models import Event
from conductor.services.workflows import event_log, presenter
from conductor.services.workflows.event_log import Cursor
from conductor.services.workflows.types import EventView, RunView

PROGRESS = "step.progress"

_Logs = Mapping[str, Sequence[str]]  # the runs in each database
_Place = tuple[datetime, str, int]  # time, log, number


@dataclass(frozen=True)
class EventWindow:
    """Some events in order. `first` is the place of the first one, `total` the number of all.

    `ends_before` is, for each log, the first number after the window's last event.
    """

    events: list[EventView]
    first: int
    total: int
    ends_before: Cursor


def read(context: RequestContext, runs: Sequence[RunView], *, first: int = 0, size: int) -> EventWindow:
    """Return `size` events of runs that the caller may see, from a place on, or the newest without one.

    Where fewer follow, the newest `size` events are returned.
    """
    logs = _logs(runs)
    extents = _extents(logs)
    total = sum(count for count, _ in extents.values())
    begin = max(1, min(first or total, total - size + 1))
    last = min(total, begin + size - 1)
    inside, later = _order(logs, {alias: end for alias, (_, end) in extents.items()}, begin, last, total)
    ends = {alias: end + 1 for alias, (_, end) in extents.items()}
    for _, alias, number in reversed(later):
        ends[alias] = number
    return EventWindow([presenter.redacted(context, one) for one in _events(logs, inside)], begin, total, ends)


def standing(context: RequestContext, runs: Sequence[RunView], window: EventWindow) -> list[EventView]:
    """Return the events before a window's end that determine the runs' state. Of progress events, only each run's last
    one.
    """
    logs = _logs(runs)

    def ask(alias: str) -> list[Event]:
        before = _of(alias, logs).filter(pk__lt=window.ends_before.get(alias, 0))
        newest = before.filter(kind=PROGRESS).values("run_uuid").annotate(last=Max("pk")).values("last")
        return list(before.filter(~Q(kind=PROGRESS) | Q(pk__in=newest)).order_by("pk"))

    found = event_log.merged(scatter_gather(ask, logs).answers, lambda row: row.created_at)
    return [presenter.redacted(context, event_log.view(row)) for row in found]


def _logs(runs: Sequence[RunView]) -> _Logs:
    logs: dict[str, list[str]] = {}
    for run in runs:
        logs.setdefault(run.cell or API_ALIAS, []).append(run.uuid)
    return logs


def _of(alias: str, logs: _Logs) -> QuerySet[Event]:
    return Event.objects.using(alias).filter(run_uuid__in=logs[alias])


def _extents(logs: _Logs) -> dict[str, tuple[int, int]]:
    """Return the number of events of each log, and the last number: later events do not move windows."""

    def ask(alias: str) -> tuple[int, int]:
        found = event_order.after(_of(alias, logs), 0).aggregate(count=Count("pk"), last=Max("pk"))
        return found["count"], found["last"] or 0

    return scatter_gather(ask, logs).answers


def _order(logs: _Logs, ends: Cursor, begin: int, last: int, total: int) -> tuple[list[_Place], list[_Place]]:
    """Return positions `begin` to `last`, and later ones, at least the next one of each log."""
    is_from_start = last < total - begin
    reach = last + 1 if is_from_start else total - begin + 1

    def ask(alias: str) -> list[_Place]:
        # A time earlier than a previous one counts as that one, so that the order is the same from both ends.
        seen = _of(alias, logs).filter(pk__lte=ends[alias]).annotate(at=Window(Max("created_at"), order_by="pk"))
        rows = [(at, alias, number) for at, number in seen.order_by(way).values_list("at", "pk")[:reach]]
        return rows if is_from_start else rows[::-1]

    way = "pk" if is_from_start else "-pk"
    order = list(event_log.merged(scatter_gather(ask, ends).answers, lambda place: place[0]))
    skipped = 0 if is_from_start else total - len(order)
    return order[begin - 1 - skipped : last - skipped], order[last - skipped :]


def _events(logs: _Logs, places: Sequence[_Place]) -> list[EventView]:
    """Return the events at these places; a database that went down meanwhile has none."""
    numbers: dict[str, list[int]] = {}
    for _, alias, number in places:
        numbers.setdefault(alias, []).append(number)

    def ask(alias: str) -> dict[int, Event]:
        wanted = numbers[alias]
        return {row.pk: row for row in _of(alias, logs).filter(pk__gte=wanted[0], pk__lte=wanted[-1])}

    rows = scatter_gather(ask, numbers).answers
    return [event_log.view(rows[alias][number]) for _, alias, number in places if alias in rows]
