"""Subscriptions: the events that a user wants, and their target. Used by the API and the pages.

A change gives the revision that its caller has seen, so that concurrent changes are not lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import F, QuerySet

from conductor.api_db.models import InstanceMapping, Notice, Subscription
from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision, Unavailable
from conductor.core.identifiers import uuid_or_none
from conductor.core.names import has_control
from conductor.core.patterns import glob
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.identity import delegation
from conductor.identity.delegation import Power
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.notifications import dispatcher, mails, sealing, targets
from conductor.services.notifications.event_types import every_event_type
from conductor.services.notifications.sealing import Target

WEBHOOK, CHAT, EMAIL, BELL = "webhook", "chat", "email", "bell"
CHANNELS = (WEBHOOK, CHAT, EMAIL, BELL)
POSTED = (WEBHOOK, CHAT)  # sent by POST to a URL of the subscriber
MOST = 20  # per user and project
MOST_EVENTS, MOST_SERVERS = 50, 50
LONGEST_NAME, LONGEST_PATTERN = 60, 128
NO_URL = "Only webhooks and chats have a url."
PREFIX = "subscription "  # of the names of their sinks


@dataclass(frozen=True)
class SubscriptionView:
    """A subscription as its owner may see it; secrets of its target are shown as a hint."""

    uuid: str
    name: str
    channel: str
    is_cloud_wide: bool
    events: list[str]
    servers: list[str]
    address: str
    secret_hint: str
    is_enabled: bool
    off_reason: str
    revision: int
    user_id: str
    project_id: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class CreatedSubscription:
    """A subscription, and its new key, which is never shown again; "" where there is none."""

    view: SubscriptionView
    secret: str = ""


@dataclass(frozen=True, kw_only=True)
class SubscriptionRequest:
    """Fields to set on a subscription. With None a field keeps its value, or has its default in a new subscription."""

    name: str | None = None
    channel: str | None = None
    url: str | None = None
    events: Sequence[str] | None = None
    servers: Sequence[str] | None = None
    is_cloud_wide: bool | None = None
    is_enabled: bool | None = None


def sink_name(subscription: Subscription | SubscriptionView) -> str:
    """Return the sink name under which its positions and deliveries are stored."""
    return f"{PREFIX}{subscription.uuid}"


def list_of(context: RequestContext, *, of_all: bool = False) -> list[SubscriptionView]:
    """Return the caller's subscriptions in the current project, by name; for operators those of all users. Raises
    Forbidden.
    """
    if of_all and not context.is_admin:
        raise Forbidden(phrase("Only operators can see subscriptions of other users."))
    rows = Subscription.objects.all() if of_all else _own(context)
    return [view_of(row) for row in rows.order_by("name", "pk")]


def get(context: RequestContext, subscription_uuid: str) -> SubscriptionView:
    """Return a subscription. Raises NotFound also for another user's; operators see all."""
    return view_of(row_of(context, subscription_uuid))


def subscribe(context: RequestContext, requested: SubscriptionRequest) -> CreatedSubscription:
    """Create a subscription.

    Raises Invalid naming the field, Forbidden, and Conflict for a taken name or too many subscriptions.
    """
    delegation.require_of(context, Power.LASTING_WORK)
    channel = requested.channel or WEBHOOK
    if channel not in CHANNELS:
        raise Invalid(phrase("channel must be one of %(choices)s.", choices=", ".join(CHANNELS)), field="channel")
    if channel in POSTED and not requested.url:
        raise Invalid(
            phrase("Enter the URL to which messages for channel %(channel)s are posted.", channel=channel), field="url"
        )
    if channel == EMAIL:
        _require_mail_address(context)
    if requested.name is None:
        raise Invalid(phrase("Enter a name for the subscription."), field="name")
    row = Subscription(user_id=context.user_id, project_id=context.project_id, channel=channel, events=["*"])
    row.delegated_by = context.delegated_by
    _apply(context, row, requested)
    secret = _give_secret(row, requested.url or "") if channel in POSTED else ""
    try:
        with write_tx(API_ALIAS):
            one_at_a_time(API_ALIAS, f"subscriptions:{context.user_id}:{context.project_id}")
            if _own(context).count() >= MOST:
                raise Conflict(
                    phrase("You already have %(most)s subscriptions in this project. Delete one first.", most=MOST)
                )
            row.created_at = row.updated_at = database_now()
            row.save(force_insert=True)
            _record(context, row, "subscription.create")
    except IntegrityError:
        raise _taken(row) from None
    begin(row)
    return CreatedSubscription(get(context, str(row.uuid)), secret)


def change(
    context: RequestContext, subscription_uuid: str, requested: SubscriptionRequest, revision: int | None
) -> SubscriptionView:
    """Change some fields, all of them or none.

    `revision` is the one that the caller saw; None for any. Raises NotFound, StaleRevision, Invalid naming the field,
    Conflict for a taken name.
    """
    if requested.channel is not None:
        raise Invalid(
            phrase("The channel of a subscription can't be changed. Create another subscription."), field="channel"
        )
    try:
        with write_tx(API_ALIAS):
            row = _changeable(context, subscription_uuid, revision)
            if requested.url is not None and row.channel not in POSTED:
                raise Invalid(NO_URL, field="url")
            was_enabled = row.is_enabled
            _apply(context, row, requested)
            if requested.url is not None:
                row.sealed = sealing.seal(Target(requested.url, sealing.unseal(row.sealed).secret))
            if row.is_enabled:
                row.off_reason = ""
            _store(context, row, "subscription.change")
    except IntegrityError:
        raise _taken(row) from None
    if row.is_enabled and not was_enabled:
        begin(row)
    return get(context, subscription_uuid)


def renew_secret(context: RequestContext, subscription_uuid: str, revision: int | None) -> CreatedSubscription:
    """Replace the key. The old one signs nothing from now on. Raises what `change` raises."""
    with write_tx(API_ALIAS):
        row = _changeable(context, subscription_uuid, revision)
        if row.channel != WEBHOOK:
            raise Conflict(phrase("Only webhooks have a key."))
        secret = _give_secret(row, sealing.unseal(row.sealed).url)
        _store(context, row, "subscription.renew_secret")
    return CreatedSubscription(get(context, subscription_uuid), secret)


def unsubscribe(context: RequestContext, subscription_uuid: str, revision: int | None = None) -> None:
    """Delete a subscription and its notices. Raises NotFound and StaleRevision."""
    with write_tx(API_ALIAS):
        row = _seen(context, subscription_uuid, revision)
        Notice.objects.filter(subscription_uuid=row.uuid).delete()
        row.delete()
        _record(context, row, "subscription.delete")


def turn_off(subscription_uuid: Any, reason: str) -> Subscription | None:
    """Turn a subscription off. Return None if it is off, or deleted, already."""
    with write_tx(API_ALIAS):
        row = Subscription.objects.select_for_update().filter(uuid=subscription_uuid, is_enabled=True).first()
        if row is not None:
            Subscription.objects.filter(pk=row.pk).update(
                is_enabled=False, off_reason=reason[:255], revision=F("revision") + 1, updated_at=database_now()
            )
    return row


def begin(row: Subscription) -> None:
    """Start delivery with events from now on. In a database that is down it starts when that is up again."""
    if row.is_enabled:
        scatter_gather(lambda alias: dispatcher.begin_at_the_end(alias, sink_name(row)), journal_aliases())


def row_of(context: RequestContext, subscription_uuid: str) -> Subscription:
    """Return the row. Raises NotFound for an unknown one, or another user's."""
    known = uuid_or_none(subscription_uuid)
    rows = Subscription.objects.all() if context.is_admin else _own(context)
    row = rows.filter(uuid=known).first() if known else None
    if row is None:
        raise NotFound(phrase("Subscription %(subscription)s could not be found.", subscription=subscription_uuid[:60]))
    return row


def view_of(row: Subscription) -> SubscriptionView:
    """Return a subscription's view, without secrets."""
    shown = ("name", "channel", "is_cloud_wide", "address", "secret_hint", "is_enabled", "off_reason", "revision")
    plain = {name: getattr(row, name) for name in (*shown, "user_id", "project_id", "created_at", "updated_at")}
    return SubscriptionView(uuid=str(row.uuid), events=list(row.events), servers=list(row.server_uuids), **plain)


def _own(context: RequestContext) -> QuerySet[Subscription]:
    return Subscription.objects.filter(user_id=context.user_id, project_id=context.project_id)


def _seen(context: RequestContext, subscription_uuid: str, revision: int | None) -> Subscription:
    """Return the row, locked until this transaction ends."""
    found = row_of(context, subscription_uuid)
    row = Subscription.objects.select_for_update().filter(pk=found.pk).first()
    if row is None:
        raise NotFound(phrase("Subscription %(subscription)s could not be found.", subscription=subscription_uuid[:60]))
    if revision is not None and revision != row.revision:
        raise StaleRevision(
            phrase(
                "The subscription has changed: its revision is %(newest)s, not %(revision)s. Reload it and try again.",
                newest=row.revision,
                revision=revision,
            )
        )
    return row


def _changeable(context: RequestContext, subscription_uuid: str, revision: int | None) -> Subscription:
    """Return the row, locked, for a change of its events or its target. Raises Forbidden as well."""
    row = _seen(context, subscription_uuid, revision)
    delegation.require_maker(context, row.delegated_by)
    return row


def _store(context: RequestContext, row: Subscription, action: str) -> None:
    row.revision += 1
    row.updated_at = database_now()
    row.save()
    _record(context, row, action)


def _apply(context: RequestContext, row: Subscription, requested: SubscriptionRequest) -> None:
    """Set the requested fields, validated. Raises Invalid, and Forbidden for fields of operators."""
    if requested.name is not None:
        row.name = _require_name(requested.name)
    if requested.url is not None and row.channel in POSTED:
        row.address = targets.shown(targets.require_url(requested.url))
    elif requested.url:
        raise Invalid(NO_URL, field="url")
    if requested.events is not None:
        row.events = _require_events(requested.events)
    if requested.is_cloud_wide is not None:
        if requested.is_cloud_wide and not context.is_admin:
            raise Forbidden(phrase("Only operators can subscribe to all projects."))
        row.is_cloud_wide = requested.is_cloud_wide
    if requested.servers is not None:
        row.server_uuids = _require_servers(row, requested.servers)
    if requested.is_enabled is not None:
        row.is_enabled = requested.is_enabled


def _give_secret(row: Subscription, url: str) -> str:
    """Set a new key for a webhook and return it; a chat has none, as only its URL is secret."""
    secret = sealing.new_secret() if row.channel == WEBHOOK else ""
    row.sealed, row.secret_hint = sealing.seal(Target(url, secret)), sealing.hint_of(secret) if secret else ""
    return secret


def _require_mail_address(context: RequestContext) -> None:
    try:
        mails.address_of(context.user_id)
    except Unavailable as error:
        raise Invalid(error.message, field="channel") from None


def _require_name(text: str) -> str:
    sentence = " ".join(text.split())
    if not 1 <= len(sentence) <= LONGEST_NAME or has_control(sentence):
        raise Invalid(phrase("Enter a name of 1 to %(longest)s characters.", longest=LONGEST_NAME), field="name")
    return sentence


def _require_events(patterns: Sequence[str]) -> list[str]:
    if not 1 <= len(patterns) <= MOST_EVENTS:
        raise Invalid(
            phrase("Enter 1 to %(most)s event types. * stands for all of them.", most=MOST_EVENTS), field="events"
        )
    known = every_event_type()
    for index, pattern in enumerate(patterns):
        if len(pattern) > LONGEST_PATTERN or not any(matches(name, [pattern]) for name in known):
            text = phrase(
                "No event type matches %(pattern)s. Use one such as instance.create.end or *.error.",
                pattern=pattern[:60],
            )
            raise Invalid(text, field=f"events[{index}]")
    return list(dict.fromkeys(patterns))


def matches(event_type: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches this event type; * stands for any text."""
    return any(glob(pattern).fits(event_type) for pattern in patterns)


def _require_servers(row: Subscription, servers: Sequence[str]) -> list[str]:
    if len(servers) > MOST_SERVERS:
        raise Invalid(
            phrase("Enter at most %(most)s server IDs, or none for all servers.", most=MOST_SERVERS), field="servers"
        )
    ids = [uuid_or_none(text) for text in servers]
    seen = InstanceMapping.objects.filter(instance_uuid__in=[one for one in ids if one], is_deleted=False)
    if not row.is_cloud_wide:
        seen = seen.filter(project_id=row.project_id)
    known = set(seen.values_list("instance_uuid", flat=True))
    for index, one in enumerate(ids):
        if one is None or one not in known:
            raise Invalid(
                phrase("Server %(server)s could not be found.", server=servers[index][:60]), field=f"servers[{index}]"
            )
    return list(dict.fromkeys(str(one) for one in ids))


def _record(context: RequestContext, row: Subscription, action: str) -> None:
    details: Mapping[str, Any] = {
        "subscription": str(row.uuid),
        "channel": row.channel,
        "address": row.address,
        "events": list(row.events),
        "is_enabled": row.is_enabled,
    }
    audit.record(API_ALIAS, context, AuditEntry(action=action, project_id=row.project_id, details=details))


def _taken(row: Subscription) -> Conflict:
    return Conflict(f"You have a subscription called {row.name} in this project already; choose another name.")
