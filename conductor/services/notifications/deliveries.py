"""Delivery attempts of subscriptions. A request to send a message again is stored here; the dispatcher sends it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from conductor.api_db.models import Subscription
from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import Event, NotificationDelivery
from conductor.services.notifications import subscriptions
from conductor.services.notifications.event_types import TEST

ASKED, DELIVERED, FAILED = "asked", "delivered", "failed"
MOST = 100
LONGEST_ID = 60


@dataclass(frozen=True)
class DeliveryView:
    """One attempt to deliver a message to a subscription's target. One that is `asked` is requested and not sent
    yet.
    """

    id: str
    message_id: str
    event_type: str
    outcome: str
    detail: str
    tried_at: datetime
    can_be_sent_again: bool


def list_of(context: RequestContext, subscription_uuid: str, limit: int = MOST, marker: str = "") -> Page[DeliveryView]:
    """Return the deliveries of a subscription, newest first. Raises NotFound, and Invalid for an unknown marker."""
    row = subscriptions.row_of(context, subscription_uuid)
    name = subscriptions.sink_name(row)
    anchor = _found(row, marker) if marker else None
    if marker and anchor is None:
        raise Invalid(phrase("Marker %(marker)s could not be found.", marker=marker[:LONGEST_ID]), field="marker")

    def ask(alias: str) -> list[NotificationDelivery]:
        rows = NotificationDelivery.objects.using(alias).filter(sink=name)
        if anchor is not None:
            rows = rows.filter(tried_at__lte=anchor.tried_at)
        return list(rows.order_by("-tried_at", "-pk")[: limit + 2])

    found = scatter_gather(ask, journal_aliases())
    merged = [one for rows in found.answers.values() for one in rows if anchor is None or _key(one) < _key(anchor)]
    merged.sort(key=_key, reverse=True)
    return Page([_view(one) for one in merged[:limit]], len(merged) > limit, found.failures)


def send_again(context: RequestContext, subscription_uuid: str, delivery_id: str) -> DeliveryView:
    """Request that a message is sent again, under its own id.

    Raises NotFound, and Conflict where that is impossible.
    """
    row = subscriptions.row_of(context, subscription_uuid)
    _require_enabled(row)
    before = _found(row, delivery_id)
    if before is None:
        raise NotFound(phrase("Delivery %(delivery_id)s could not be found.", delivery_id=delivery_id[:LONGEST_ID]))
    alias = str(before._state.db)
    if before.event_number is None:
        raise Conflict(phrase("Test messages can't be sent again. Send a new test message."))
    with write_tx(alias):
        if not Event.objects.using(alias).filter(pk=before.event_number).exists():
            raise Conflict(phrase("The events of this notification are no longer in the event log."))
        return _ask(alias, row, before)


def test(context: RequestContext, subscription_uuid: str) -> DeliveryView:
    """Request a message of type `subscription.test`. Raises NotFound, and Conflict while one is requested already."""
    row = subscriptions.row_of(context, subscription_uuid)
    _require_enabled(row)
    with write_tx(API_ALIAS):
        return _ask(API_ALIAS, row, NotificationDelivery(message_id=uuid4(), event_type=TEST))


def _ask(alias: str, row: Subscription, like: NotificationDelivery) -> DeliveryView:
    rows = NotificationDelivery.objects.using(alias)
    name = subscriptions.sink_name(row)
    if rows.filter(sink=name, outcome=ASKED, event_type=like.event_type, event_number=like.event_number).exists():
        raise Conflict(phrase("This notification is already being sent."))
    made = rows.create(
        sink=name,
        message_id=like.message_id,
        event_type=like.event_type,
        event_number=like.event_number,
        outcome=ASKED,
        tried_at=database_now(),
    )
    return _view(rows.get(pk=made.pk))


def _require_enabled(row: Subscription) -> None:
    if not row.is_enabled:
        raise Conflict(phrase("Turn the subscription on first."))


def _found(row: Subscription, delivery_id: str) -> NotificationDelivery | None:
    """Return a delivery by its id, which is the database and the number there."""
    alias, _, number = delivery_id.partition(":")
    if alias not in journal_aliases() or not (number.isascii() and number.isdigit() and len(number) <= 18):
        return None
    rows = NotificationDelivery.objects.using(alias)
    return rows.filter(pk=int(number), sink=subscriptions.sink_name(row)).first()


def _key(row: NotificationDelivery) -> tuple[float, str, int]:
    return (row.tried_at.timestamp(), str(row._state.db), row.pk)


def _view(row: NotificationDelivery) -> DeliveryView:
    return DeliveryView(
        id=f"{row._state.db}:{row.pk}",
        message_id=str(row.message_id),
        event_type=row.event_type,
        outcome=row.outcome,
        detail=row.detail,
        tried_at=row.tried_at,
        can_be_sent_again=row.outcome != ASKED and row.event_number is not None,
    )
