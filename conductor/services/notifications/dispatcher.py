"""Dispatcher of the event log to sinks: at least once, in the log's order, each sink at its own pace.

For each journal and sink a row stores the position in the log, and its dispatcher: the lease on that row elects one of
all conductors. The position advances after the sink has accepted a message. After a crash in between, the message is
sent again under the same id. A failed sink is retried with backoff, and delays no other sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.db.models import F, Q, QuerySet

from conductor.core.notification_sink import Notification, Send, SinkFailed
from conductor.db.transactions import database_now, write_tx
from conductor.journal import event_order
from conductor.journal.models import Event, NotificationDelivery, NotificationPlace
from conductor.services.notifications.event_types import KINDS
from conductor.services.notifications.payloads import compose
from conductor.services.notifications.sinks import Sink

log = logging.getLogger(__name__)

MOST_AT_ONCE = 100
LEASE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 300.0


def dispatch_all(aliases: Iterable[str], sink: Sink, teller: str) -> None:
    """Send the new events of each of these journals to one sink."""
    for alias in aliases:
        try:
            while dispatch(alias, sink, teller) == MOST_AT_ONCE:
                pass
        except Exception:
            log.exception("notifications failed: alias=%s sink=%s", alias, sink.name)


@dataclass(frozen=True)
class EventSelection:
    """Selection of a journal's events for a sink: `wanted` filters them, `make` composes a message or returns None."""

    wanted: Q = field(default_factory=Q)
    make: Callable[[str, Event], Notification | None] = compose

    def events(self, alias: str) -> QuerySet[Event]:
        return Event.objects.using(alias).filter(self.wanted, kind__in=KINDS)


WHOLE = EventSelection()


def dispatch(alias: str, sink: Sink, teller: str, part: EventSelection = WHOLE) -> int:
    """Send the next events in the journal of `alias` to `sink`. Return how many events were read.

    Does nothing while another dispatcher has the lease, or during the backoff after a failure.
    """
    place = _claim(alias, sink, teller, part)
    if place is None:
        return 0
    end = event_order.end(Event.objects.using(alias))
    later = part.events(alias).filter(pk__gt=place.reached, pk__lte=end)
    found = list(later.order_by("pk")[:MOST_AT_ONCE])
    reached = found[-1].pk if len(found) == MOST_AT_ONCE else max(end, place.reached)
    messages = [message for message in (part.make(alias, event) for event in found) if message is not None]
    try:
        if messages:
            with sink.open() as send:
                for message in messages:
                    _deliver(alias, place, send, message)
    except SinkFailed as failure:
        _put_off(alias, place, str(failure))
        return 0
    except _LostLease:
        return 0
    _let_go(alias, place, reached)
    return len(found)


class _LostLease(Exception):
    """Another dispatcher has taken over; it sends again what is not recorded as sent."""


def _claim(alias: str, sink: Sink, teller: str, part: EventSelection) -> NotificationPlace | None:
    places = NotificationPlace.objects.using(alias)
    if not places.filter(sink=sink.name).exists():
        begin_at_the_end(alias, sink.name)
    free = Q(owner__isnull=True) | Q(owner=teller) | Q(lease_expires_at__lt=database_now())
    mine = places.filter(free, sink=sink.name, retry_at__lte=database_now())
    reached = mine.values_list("reached", flat=True).first()
    if (
        reached is None or not event_order.after(part.events(alias), reached).exists()
    ):  # the typical case, which needs no write
        return None
    with write_tx(alias):
        if not mine.update(owner=teller, lease_expires_at=database_now(LEASE_SECONDS)):
            return None
        return places.get(sink=sink.name)


def begin_at_the_end(alias: str, name: str) -> None:
    """Start a new sink at the end of the log."""
    end = event_order.end(Event.objects.using(alias))
    with write_tx(alias):
        NotificationPlace.objects.using(alias).get_or_create(
            sink=name, defaults={"reached": end, "retry_at": database_now()}
        )


def _deliver(alias: str, place: NotificationPlace, send: Send, message: Notification) -> None:
    try:
        detail = send(message)
    except SinkFailed as failure:
        with write_tx(alias):
            _log(alias, place, message, "failed", str(failure))
        raise
    with write_tx(alias):
        mine = NotificationPlace.objects.using(alias).filter(pk=place.pk, owner=place.owner)
        if not mine.update(
            reached=message.number, lease_expires_at=database_now(LEASE_SECONDS), failures=0, last_error=""
        ):
            raise _LostLease
        _log(alias, place, message, "delivered", detail)


def _put_off(alias: str, place: NotificationPlace, error: str) -> None:
    row = NotificationPlace.objects.using(alias).get(pk=place.pk)
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(row.failures, 16), LONGEST_PAUSE_SECONDS)
    log.warning("sink failed: alias=%s sink=%s error=%s pause=%.0f", alias, place.sink, error, pause)
    with write_tx(alias):
        NotificationPlace.objects.using(alias).filter(pk=place.pk, owner=place.owner).update(
            owner=None,
            lease_expires_at=None,
            failures=F("failures") + 1,
            retry_at=database_now(pause),
            last_error=error[:255],
        )


def _let_go(alias: str, place: NotificationPlace, reached: int) -> None:
    with write_tx(alias):
        NotificationPlace.objects.using(alias).filter(pk=place.pk, owner=place.owner).update(
            owner=None, lease_expires_at=None, reached=reached
        )


def _log(alias: str, place: NotificationPlace, message: Notification, outcome: str, detail: str) -> None:
    NotificationDelivery.objects.using(alias).create(
        sink=place.sink,
        message_id=message.message_id,
        event_type=message.event_type,
        outcome=outcome,
        detail=detail[:255],
        tried_at=database_now(),
        event_number=message.number,
    )
