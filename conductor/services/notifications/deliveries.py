"""What became of a subscription's messages. Sending one once more is asked for here; who tells subscribers does it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from conductor.api_db.models import Subscription
from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.journal.models import Event, NotificationDelivery
from conductor.services.notifications import subscriptions
from conductor.services.notifications.event_types import TEST
from conductor.services.values import Page
from conductor.transactions import database_now, write_tx

ASKED, DELIVERED, FAILED = "asked", "delivered", "failed"
MOST = 100
LONGEST_ID = 60


@dataclass(frozen=True)
class DeliveryView:
    """One attempt to tell a subscription's target of something. `asked` ones are about to be made."""

    id: str
    message_id: str
    event_type: str
    outcome: str
    detail: str
    tried_at: datetime
    can_be_sent_again: bool


def list_of(context: RequestContext, subscription_uuid: str, limit: int = MOST, marker: str = "") -> Page[DeliveryView]:
    """The attempts of a subscription, the newest first. Raises NotFound, and Invalid for a marker that is none."""
    row = subscriptions.row_of(context, subscription_uuid)
    name = subscriptions.sink_name(row)
    anchor = _found(row, marker) if marker else None
    if marker and anchor is None:
        raise Invalid(f"Marker {marker[:LONGEST_ID]} could not be found.", field="marker")

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
    """Have a message sent once more, under its own id. Raises NotFound, and Conflict where that cannot be."""
    row = subscriptions.row_of(context, subscription_uuid)
    _require_enabled(row)
    before = _found(row, delivery_id)
    if before is None:
        raise NotFound(f"Delivery {delivery_id[:LONGEST_ID]} could not be found.")
    alias = str(before._state.db)
    if before.event_number is None:
        raise Conflict("This was a test: ask for another one.")
    with write_tx(alias):
        if not Event.objects.using(alias).filter(pk=before.event_number).exists():
            raise Conflict("What this told of is no longer in the event log.")
        return _ask(alias, row, before)


def test(context: RequestContext, subscription_uuid: str) -> DeliveryView:
    """Have a message of type `subscription.test` sent. Raises NotFound, and Conflict while one is about to be."""
    row = subscriptions.row_of(context, subscription_uuid)
    _require_enabled(row)
    with write_tx(API_ALIAS):
        return _ask(API_ALIAS, row, NotificationDelivery(message_id=uuid4(), event_type=TEST))


def _ask(alias: str, row: Subscription, like: NotificationDelivery) -> DeliveryView:
    rows = NotificationDelivery.objects.using(alias)
    name = subscriptions.sink_name(row)
    if rows.filter(sink=name, outcome=ASKED, event_type=like.event_type, event_number=like.event_number).exists():
        raise Conflict("This is about to be sent already.")
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
        raise Conflict("The subscription is off: turn it on first.")


def _found(row: Subscription, delivery_id: str) -> NotificationDelivery | None:
    """By its id: the database and the number there."""
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
