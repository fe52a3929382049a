"""Delivery to subscribers, with the same dispatcher and positions as for other sinks.

A pass reads each journal once for all of them. Subscribers with news are served on threads, those of one project one
after another. So a slow target delays only its own project.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.db.models import Q

from conductor.api_db.models import Subscription
from conductor.core.context import RequestContext
from conductor.core.errors import Unavailable
from conductor.core.notification_sink import Notification, SinkFailed
from conductor.db.transactions import database_now, write_tx
from conductor.journal import event_order
from conductor.journal.models import Event, NotificationDelivery, NotificationPlace
from conductor.services.accounts import sign_in
from conductor.services.notifications import dispatcher, mails, notices, sealing, subscriptions
from conductor.services.notifications.chats import as_chat
from conductor.services.notifications.deliveries import ASKED, DELIVERED, FAILED
from conductor.services.notifications.dispatcher import EventSelection
from conductor.services.notifications.event_types import KINDS, TEST
from conductor.services.notifications.mails import MailSink
from conductor.services.notifications.payloads import compose, for_tenants
from conductor.services.notifications.sinks import Sink, Webhook

log = logging.getLogger(__name__)

OFF_AFTER_FAILURES = 20  # in a row in one journal; with the backoff about an hour
MOST_LOOKED_AT = 1000
SEND_AGAIN_AFTER_SECONDS = 60.0  # if the process that took the requested message has died
WORKERS = 8
RIGHTS_GONE = "its owner has no right to it any more"

Work = Callable[[], None]
Due = tuple[str, Subscription]  # a journal with news, and the subscription to notify


@dataclass
class Subscribers:
    """The passes of one process. `submit` runs work on another thread and returns at once."""

    aliases: Sequence[str]
    teller: str
    submit: Callable[[Work], Any] | None = None
    _busy: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go_round(self) -> None:
        """Run one pass over all journals. One that is down is left for the next pass."""
        places = dict(_answered(self.aliases, _places))  # read first, so that no new subscription seems deleted
        known = {subscriptions.sink_name(row): row for row in Subscription.objects.filter(is_enabled=True)}
        due: defaultdict[str, list[Due]] = defaultdict(list)
        for alias, rows in places.items():
            if not rows and not known:
                continue
            for _, found in _answered([alias], partial(_due, places=rows, known=known)):
                for row in found:
                    due[row.project_id].append((alias, row))
        for project_id, theirs in due.items():
            self._hand_out(project_id, theirs)

    def _hand_out(self, project_id: str, due: list[Due]) -> None:
        with self._lock:
            if project_id in self._busy:
                return  # a later pass serves it
            self._busy.add(project_id)
        if self.submit is None:
            self._work(project_id, due)
        else:
            self.submit(lambda: self._apart(project_id, due))

    def _apart(self, project_id: str, due: list[Due]) -> None:
        try:
            self._work(project_id, due)
        finally:
            connections.close_all()  # each thread has connections of its own

    def _work(self, project_id: str, due: list[Due]) -> None:
        try:
            for alias, row in due:
                try:
                    deliver(alias, row, self.teller)
                except Exception:
                    log.exception("subscriber was not notified: alias=%s subscription=%s", alias, row.uuid)
        finally:
            with self._lock:
                self._busy.discard(project_id)


def on_threads(aliases: Sequence[str], teller: str) -> Subscribers:
    """Return subscribers whose projects are served on threads in parallel."""
    pool = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="subscribers")
    return Subscribers(aliases, teller, pool.submit)


def deliver(alias: str, row: Subscription, teller: str) -> None:
    """Send one subscriber the news of one journal, and requested messages; turn it off after too many failures."""
    owner = sign_in.context_for(row.user_id, row.project_id, "", row.delegated_by)
    if owner is None or "reader" not in owner.roles or (row.is_cloud_wide and not owner.is_admin):
        _turn_off(row, RIGHTS_GONE)
        return
    try:
        sink = sink_of(row)
    except Unavailable as error:
        _turn_off(row, error.message)
        return
    _send_what_was_asked_for(alias, row, owner, sink)
    dispatcher.dispatch(alias, sink, teller, part_of(row, owner))
    place = NotificationPlace.objects.using(alias).filter(sink=sink.name, failures__gte=OFF_AFTER_FAILURES).first()
    if place is not None:
        _turn_off(row, f"{place.failures} deliveries in a row failed, the last with: {place.last_error}")


def sink_of(row: Subscription) -> Sink:
    """Return a subscription's sink. Raises Unavailable if its target cannot be decrypted, or if it has no address."""
    name = subscriptions.sink_name(row)
    if row.channel == subscriptions.BELL:
        return notices.NoticeSink(row, name)
    if row.channel == subscriptions.EMAIL:
        return MailSink(mails.address_of(row.user_id), row.name, name)
    target = sealing.unseal(row.sealed)
    render_body = as_chat if row.channel == subscriptions.CHAT else None
    return Webhook(target.url, target.secret, is_guarded=True, given_name=name, render_body=render_body)


def part_of(row: Subscription, owner: RequestContext) -> EventSelection:
    """Select the events of a journal for this subscriber, as its owner may see them."""
    wanted = Q() if row.is_cloud_wide else Q(project_id=row.project_id)
    if row.server_uuids:
        wanted &= Q(instance_uuid__in=row.server_uuids)

    def make(alias: str, event: Event) -> Notification | None:
        if _is_in_the_bell(row, owner, event):
            return None
        message = _composed(owner, alias, event)
        return message if message is not None and subscriptions.matches(message.event_type, row.events) else None

    return EventSelection(wanted, make)


def _is_in_the_bell(row: Subscription, owner: RequestContext, event: Event) -> bool:
    """Whether the owner gets the event as a notice anyway, so that no notice is sent twice."""
    is_notified = event.kind in notices.MEMBER_EVENTS and event.project_id == owner.project_id
    return is_notified and row.channel == subscriptions.BELL and "member" in owner.roles


def _composed(owner: RequestContext, alias: str, event: Event) -> Notification | None:
    message = compose(alias, event)
    return message if message is None or owner.is_admin else for_tenants(message)


def _answered(aliases: Iterable[str], ask: Callable[[str], Any]) -> Iterable[tuple[str, Any]]:
    for alias in aliases:
        try:
            yield alias, ask(alias)
        except (DatabaseError, InterfaceError) as error:
            log.warning("subscribers are not notified: alias=%s error=%s", alias, type(error).__name__)


def _places(alias: str) -> list[NotificationPlace]:
    rows = NotificationPlace.objects.using(alias).filter(sink__startswith=subscriptions.PREFIX)
    return list(rows.annotate(at=database_now()))


def _due(alias: str, *, places: list[NotificationPlace], known: Mapping[str, Subscription]) -> list[Subscription]:
    """Return subscriptions with news in a journal.

    Advances the positions of all others, and deletes those of deleted subscriptions.
    """
    gone = [place.pk for place in places if place.sink not in known]
    if gone:
        with write_tx(alias):
            NotificationPlace.objects.using(alias).filter(pk__in=gone).delete()
    for name in known.keys() - {place.sink for place in places}:
        dispatcher.begin_at_the_end(alias, name)
    kept = {place.sink: place for place in places if place.sink in known}
    due = {name for name in _asked(alias) if name in known}
    if kept:
        due |= _with_news(alias, kept, known)
    return [known[name] for name in sorted(due)]


def _with_news(alias: str, kept: Mapping[str, NotificationPlace], known: Mapping[str, Subscription]) -> set[str]:
    events = Event.objects.using(alias)
    end = event_order.end(events)
    lowest = min(place.reached for place in kept.values())
    if lowest >= end:
        return set()
    later = events.filter(kind__in=KINDS, pk__gt=lowest, pk__lte=end).order_by("pk")
    news = list(later.values_list("pk", "project_id", "instance_uuid")[:MOST_LOOKED_AT])
    looked_to = news[-1][0] if len(news) == MOST_LOOKED_AT else end
    due, idle = set(), []
    for name, place in kept.items():
        row = known[name]
        if any(_concerns(row, project, instance) for number, project, instance in news if number > place.reached):
            due |= {name} if place.retry_at <= place.at else set()  # type: ignore[attr-defined]
        elif place.reached < looked_to and place.owner is None:
            idle.append(place.pk)
    if idle and (news or end - lowest >= MOST_LOOKED_AT):
        with write_tx(alias):
            NotificationPlace.objects.using(alias).filter(pk__in=idle, owner__isnull=True).update(reached=looked_to)
    return due


def _concerns(row: Subscription, project_id: str, instance_uuid: Any) -> bool:
    is_in = row.is_cloud_wide or project_id == row.project_id
    return is_in and (not row.server_uuids or str(instance_uuid) in row.server_uuids)


def _asked(alias: str) -> list[str]:
    rows = NotificationDelivery.objects.using(alias).filter(outcome=ASKED, tried_at__lte=database_now())
    return list(rows.values_list("sink", flat=True).distinct())


def _send_what_was_asked_for(alias: str, row: Subscription, owner: RequestContext, sink: Sink) -> None:
    rows = NotificationDelivery.objects.using(alias).filter(sink=sink.name, outcome=ASKED)
    for delivery in rows.filter(tried_at__lte=database_now()).order_by("pk"):
        mine = rows.filter(pk=delivery.pk, tried_at__lte=database_now())
        with write_tx(alias):
            is_mine = mine.update(tried_at=database_now(SEND_AGAIN_AFTER_SECONDS))
        if not is_mine:
            continue  # another process has taken it
        outcome, detail = _sent(alias, delivery, owner, sink)
        with write_tx(alias):
            rows.filter(pk=delivery.pk).update(outcome=outcome, detail=detail[:255], tried_at=database_now())


def _sent(alias: str, delivery: NotificationDelivery, owner: RequestContext, sink: Sink) -> tuple[str, str]:
    message = _test_message(delivery) if delivery.event_type == TEST else _made_again(alias, delivery, owner)
    if message is None:
        return FAILED, "the events of the notification are no longer in the event log"
    try:
        with sink.open() as send:
            return DELIVERED, send(message)
    except SinkFailed as failure:
        return FAILED, str(failure)


def _made_again(alias: str, delivery: NotificationDelivery, owner: RequestContext) -> Notification | None:
    event = Event.objects.using(alias).filter(pk=delivery.event_number or 0).first()
    return _composed(owner, alias, event) if event is not None else None


def _test_message(delivery: NotificationDelivery) -> Notification:
    data: dict[str, Any] = {"workflow": {}, "instance": None, "fault": None}
    body = {
        "event_type": TEST,
        "priority": "INFO",
        "publisher_id": "novella",
        "timestamp": datetime.now(UTC).isoformat(),
        "message_id": str(delivery.message_id),
        "payload": {"schema": TEST, "version": "1.0", "data": data},
    }
    return Notification(delivery.message_id, 0, TEST, "", body)


def _turn_off(row: Subscription, reason: str) -> None:
    turned = subscriptions.turn_off(row.uuid, reason)
    if turned is not None:
        log.warning("subscription turned off: subscription=%s reason=%s", row.uuid, reason)
        notices.notify_turned_off(turned, reason)
