"""The order in which readers go through the event log, so that none is missed.

SQLite commits in the order of the numbers. PostgreSQL gives a number when a row is written and shows it when its
transaction commits: a reader that stood at 6 would never see a 5 that commits later. So a place in the log is a pair,
transaction and number, and an event is read once no older transaction can still commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.models import BigIntegerField, Func, Q, QuerySet

if TYPE_CHECKING:
    from conductor.journal.models import Event

Place = tuple[int, int]
START: Place = (0, 0)


class TransactionId(Func):
    """The number of the transaction that writes; 0 where writers queue and it tells nothing."""

    template = "0"
    output_field = BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        return self.as_sql(compiler, connection, template="(pg_current_xact_id()::text::bigint)", **more)


class OldestTransaction(Func):
    """The oldest transaction of the server that is under way: all before it have ended."""

    template = "(pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
    output_field = BigIntegerField()


def is_by_number(alias: str) -> bool:
    """Whether numbers rise in the order of the commits: then what was announced last is all that there is."""
    return connections[alias].vendor == "sqlite"


def place_of(event: Event) -> Place:
    return event.transaction_id, event.pk


def after(events: QuerySet[Event], place: Place) -> QuerySet[Event]:
    """The events after `place` that are settled, in the order of their places."""
    transaction, number = place
    if is_by_number(events.db):
        return events.filter(pk__gt=number).order_by("pk")
    # Doubled, as only the first comparison lets the index be entered at the right place.
    later = Q(transaction_id__gt=transaction) | Q(transaction_id=transaction, pk__gt=number)
    return _settled(events).filter(later, transaction_id__gte=transaction).order_by("transaction_id", "pk")


def end(events: QuerySet[Event]) -> Place:
    """The place of the last settled event."""
    order = ["-pk"] if is_by_number(events.db) else ["-transaction_id", "-pk"]
    newest = _settled(events).order_by(*order)
    return next(iter(newest.values_list("transaction_id", "pk")[:1]), START)


def by_number(events: Iterable[Event]) -> list[Event]:
    """As they happened. A writer gets its number when it holds the rows that it changes, so of two transactions that
    touched the same resource the later has the higher one; the numbers of the transactions do not tell that."""
    return sorted(events, key=lambda event: event.pk)


def _settled(events: QuerySet[Event]) -> QuerySet[Event]:
    if is_by_number(events.db):
        return events
    return events.filter(transaction_id__lt=OldestTransaction())
