"""Subscriptions: what a person wants to hear of, and where it goes. The same for the API and the pages.

Whoever changes one says which revision he has seen, so that of two writers none loses his change unnoticed.
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
from conductor.core.patterns import glob
from conductor.services import audit
from conductor.services.audit import Entry
from conductor.services.notifications import dispatcher, mails, sealing, targets
from conductor.services.notifications.event_types import every_event_type
from conductor.services.notifications.sealing import Target
from conductor.transactions import database_now, one_at_a_time, write_tx

WEBHOOK, CHAT, EMAIL, BELL = "webhook", "chat", "email", "bell"
CHANNELS = (WEBHOOK, CHAT, EMAIL, BELL)
POSTED = (WEBHOOK, CHAT)  # to an address of the subscriber's
MOST = 20  # of one person in one project
MOST_EVENTS, MOST_SERVERS = 50, 50
LONGEST_NAME, LONGEST_PATTERN = 60, 128
NO_URL = "Only webhooks and chats have a url."
PREFIX = "subscription "  # of the names of their sinks


@dataclass(frozen=True)
class SubscriptionView:
    """A subscription as its owner may see it; what guards its target is shown as a hint."""

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
class Made:
    """A subscription, and the key that was just made for it: it is never shown again. Empty where there is none."""

    view: SubscriptionView
    secret: str = ""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked of a subscription; None leaves a field as it is, or at its usual value where it is new."""

    name: str | None = None
    channel: str | None = None
    url: str | None = None
    events: Sequence[str] | None = None
    servers: Sequence[str] | None = None
    is_cloud_wide: bool | None = None
    is_enabled: bool | None = None


def sink_name(subscription: Subscription | SubscriptionView) -> str:
    """Under which its places and deliveries are kept."""
    return f"{PREFIX}{subscription.uuid}"


def list_of(context: RequestContext, *, of_everybody: bool = False) -> list[SubscriptionView]:
    """The asker's own in the project in use, by name; for operators those of everybody. Raises Forbidden."""
    if of_everybody and not context.is_admin:
        raise Forbidden("Subscriptions of others are for operators.")
    rows = Subscription.objects.all() if of_everybody else _own(context)
    return [view_of(row) for row in rows.order_by("name", "pk")]


def get(context: RequestContext, subscription_uuid: str) -> SubscriptionView:
    """Raises NotFound also for what is somebody else's; operators see all."""
    return view_of(row_of(context, subscription_uuid))


def subscribe(context: RequestContext, wish: Wish) -> Made:
    """Raises Invalid naming the field, Forbidden, and Conflict for a taken name or one subscription too many."""
    channel = wish.channel or WEBHOOK
    if channel not in CHANNELS:
        raise Invalid(f"channel is one of {', '.join(CHANNELS)}.", field="channel")
    if channel in POSTED and not wish.url:
        raise Invalid(f"A {channel} needs a url: where the messages are posted.", field="url")
    if channel == EMAIL:
        _require_mailbox(context)
    if wish.name is None:
        raise Invalid("name is missing: by what you will tell it from others.", field="name")
    row = Subscription(user_id=context.user_id, project_id=context.project_id, channel=channel, events=["*"])
    _apply(context, row, wish)
    secret = _give_secret(row, wish.url or "") if channel in POSTED else ""
    try:
        with write_tx(API_ALIAS):
            one_at_a_time(API_ALIAS, f"subscriptions:{context.user_id}:{context.project_id}")
            if _own(context).count() >= MOST:
                raise Conflict(f"You have {MOST} subscriptions in this project already; delete one first.")
            row.created_at = row.updated_at = database_now()
            row.save(force_insert=True)
            _record(context, row, "subscription.create")
    except IntegrityError:
        raise _taken(row) from None
    begin(row)
    return Made(get(context, str(row.uuid)), secret)


def change(context: RequestContext, subscription_uuid: str, wish: Wish, revision: int | None) -> SubscriptionView:
    """Change some fields, all of them or none. `revision` is the one that was seen; None for any.

    Raises NotFound, StaleRevision, Invalid naming the field, Conflict for a taken name.
    """
    if wish.channel is not None:
        raise Invalid("The channel of a subscription stays as it is: make another one.", field="channel")
    try:
        with write_tx(API_ALIAS):
            row = _seen(context, subscription_uuid, revision)
            if wish.url is not None and row.channel not in POSTED:
                raise Invalid(NO_URL, field="url")
            was_enabled = row.is_enabled
            _apply(context, row, wish)
            if wish.url is not None:
                row.sealed = sealing.seal(Target(wish.url, sealing.unseal(row.sealed).secret))
            if row.is_enabled:
                row.off_reason = ""
            _store(context, row, "subscription.change")
    except IntegrityError:
        raise _taken(row) from None
    if row.is_enabled and not was_enabled:
        begin(row)
    return get(context, subscription_uuid)


def renew_secret(context: RequestContext, subscription_uuid: str, revision: int | None) -> Made:
    """A new key in place of the old one, which signs nothing from now on. Raises like `change`."""
    with write_tx(API_ALIAS):
        row = _seen(context, subscription_uuid, revision)
        if row.channel != WEBHOOK:
            raise Conflict("Only webhooks have a key: nothing else is signed.")
        secret = _give_secret(row, sealing.unseal(row.sealed).url)
        _store(context, row, "subscription.renew_secret")
    return Made(get(context, subscription_uuid), secret)


def unsubscribe(context: RequestContext, subscription_uuid: str, revision: int | None = None) -> None:
    """Forget a subscription, with the notices that it put into the bell. Raises NotFound and StaleRevision."""
    with write_tx(API_ALIAS):
        row = _seen(context, subscription_uuid, revision)
        Notice.objects.filter(subscription_uuid=row.uuid).delete()
        row.delete()
        _record(context, row, "subscription.delete")


def turn_off(subscription_uuid: Any, reason: str) -> Subscription | None:
    """Switch one off for its owner; None where it is off, or gone, already."""
    with write_tx(API_ALIAS):
        row = Subscription.objects.select_for_update().filter(uuid=subscription_uuid, is_enabled=True).first()
        if row is not None:
            Subscription.objects.filter(pk=row.pk).update(
                is_enabled=False, off_reason=reason[:255], revision=F("revision") + 1, updated_at=database_now()
            )
    return row


def begin(row: Subscription) -> None:
    """It is told from this moment on; in a database that does not answer now, from when it does."""
    if row.is_enabled:
        scatter_gather(lambda alias: dispatcher.begin_at_the_end(alias, sink_name(row)), journal_aliases())


def row_of(context: RequestContext, subscription_uuid: str) -> Subscription:
    """Raises NotFound for one that is not there, or not the asker's."""
    known = uuid_or_none(subscription_uuid)
    rows = Subscription.objects.all() if context.is_admin else _own(context)
    row = rows.filter(uuid=known).first() if known else None
    if row is None:
        raise NotFound(f"Subscription {subscription_uuid[:60]} could not be found.")
    return row


def view_of(row: Subscription) -> SubscriptionView:
    """What may be shown of it."""
    shown = ("name", "channel", "is_cloud_wide", "address", "secret_hint", "is_enabled", "off_reason", "revision")
    plain = {name: getattr(row, name) for name in (*shown, "user_id", "project_id", "created_at", "updated_at")}
    return SubscriptionView(uuid=str(row.uuid), events=list(row.events), servers=list(row.server_uuids), **plain)


def _own(context: RequestContext) -> QuerySet[Subscription]:
    return Subscription.objects.filter(user_id=context.user_id, project_id=context.project_id)


def _seen(context: RequestContext, subscription_uuid: str, revision: int | None) -> Subscription:
    """The row, which nobody else changes until this transaction ends."""
    found = row_of(context, subscription_uuid)
    row = Subscription.objects.select_for_update().filter(pk=found.pk).first()
    if row is None:
        raise NotFound(f"Subscription {subscription_uuid[:60]} could not be found.")
    if revision is not None and revision != row.revision:
        raise StaleRevision(f"The subscription was changed meanwhile: revision {row.revision}, not {revision}.")
    return row


def _store(context: RequestContext, row: Subscription, action: str) -> None:
    row.revision += 1
    row.updated_at = database_now()
    row.save()
    _record(context, row, action)


def _apply(context: RequestContext, row: Subscription, wish: Wish) -> None:
    """Set what is wished for, checked. Raises Invalid, and Forbidden for what is for operators."""
    if wish.name is not None:
        row.name = _require_name(wish.name)
    if wish.url is not None and row.channel in POSTED:
        row.address = targets.shown(targets.require_url(wish.url))
    elif wish.url:
        raise Invalid(NO_URL, field="url")
    if wish.events is not None:
        row.events = _require_events(wish.events)
    if wish.is_cloud_wide is not None:
        if wish.is_cloud_wide and not context.is_admin:
            raise Forbidden("What happens in other projects is for operators.")
        row.is_cloud_wide = wish.is_cloud_wide
    if wish.servers is not None:
        row.server_uuids = _require_servers(row, wish.servers)
    if wish.is_enabled is not None:
        row.is_enabled = wish.is_enabled


def _give_secret(row: Subscription, url: str) -> str:
    """The key of a webhook; a chat has none: its address is all that guards it."""
    secret = sealing.new_secret() if row.channel == WEBHOOK else ""
    row.sealed, row.secret_hint = sealing.seal(Target(url, secret)), sealing.hint_of(secret) if secret else ""
    return secret


def _require_mailbox(context: RequestContext) -> None:
    try:
        mails.address_of(context.user_id)
    except Unavailable as error:
        raise Invalid(error.message, field="channel") from None


def _require_name(text: str) -> str:
    said = " ".join(text.split())
    if not 1 <= len(said) <= LONGEST_NAME or "\0" in said:
        raise Invalid(f"name takes 1 to {LONGEST_NAME} characters.", field="name")
    return said


def _require_events(patterns: Sequence[str]) -> list[str]:
    if not 1 <= len(patterns) <= MOST_EVENTS:
        raise Invalid(f"events takes 1 to {MOST_EVENTS} names; * stands for any of them.", field="events")
    known = every_event_type()
    for index, pattern in enumerate(patterns):
        if len(pattern) > LONGEST_PATTERN or not any(matches(name, [pattern]) for name in known):
            text = f"No notification is called {pattern[:60]}; there are such as instance.create.end, or *.error."
            raise Invalid(text, field=f"events[{index}]")
    return list(dict.fromkeys(patterns))


def matches(event_type: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns names this notification; * stands for any text."""
    return any(glob(pattern).fits(event_type) for pattern in patterns)


def _require_servers(row: Subscription, servers: Sequence[str]) -> list[str]:
    if len(servers) > MOST_SERVERS:
        raise Invalid(f"servers takes at most {MOST_SERVERS} ids; none stands for all.", field="servers")
    ids = [uuid_or_none(text) for text in servers]
    seen = InstanceMapping.objects.filter(instance_uuid__in=[one for one in ids if one], is_deleted=False)
    if not row.is_cloud_wide:
        seen = seen.filter(project_id=row.project_id)
    known = set(seen.values_list("instance_uuid", flat=True))
    for index, one in enumerate(ids):
        if one is None or one not in known:
            raise Invalid(f"Server {servers[index][:60]} could not be found.", field=f"servers[{index}]")
    return list(dict.fromkeys(str(one) for one in ids))


def _record(context: RequestContext, row: Subscription, action: str) -> None:
    details: Mapping[str, Any] = {
        "subscription": str(row.uuid),
        "channel": row.channel,
        "address": row.address,
        "events": list(row.events),
        "is_enabled": row.is_enabled,
    }
    audit.record(API_ALIAS, context, Entry(action=action, project_id=row.project_id, details=details))


def _taken(row: Subscription) -> Conflict:
    return Conflict(f"You have a subscription called {row.name} in this project already; choose another name.")
