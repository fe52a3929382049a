"""Notices of users: messages of their subscriptions, and messages about these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db.models import QuerySet

from conductor import events
from conductor.api_db.models import Notice, Subscription
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.core.notification_sink import Notification, Send
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, write_tx

TURNED_OFF = "subscription.turned_off"
MOST_SHOWN = 12
QUOTA_APPROVED, QUOTA_REFUSED = "quota_request.approved", "quota_request.refused"
BUDGET_WARNING, BUDGET_SPENT = "budget.crossed", "budget.spent"
SCHEDULE_ERROR = "snapshot_schedule.error"
# Events that every member of the project gets as notices without a subscription.
MEMBER_EVENTS = (BUDGET_WARNING, SCHEDULE_ERROR)
NO_SUBSCRIPTION = UUID(int=0)  # of notices without a subscription
# Titles of notices that store only free text; translated for the reader.
TITLES: Mapping[str, str] = {
    QUOTA_APPROVED: phrase("Your quota request was approved"),
    QUOTA_REFUSED: phrase("Your quota request was declined"),
    BUDGET_WARNING: phrase("Part of the month's budget is used"),
    BUDGET_SPENT: phrase("The month's budget is used up"),
    SCHEDULE_ERROR: phrase("A scheduled snapshot failed"),
}
PHASES = {"start": "began", "end": "ended", "error": "failed"}


@dataclass(frozen=True)
class NoticeView:
    """One notice. Without a subscription its `subscription_uuid` is ""."""

    uuid: str
    title: str
    event_type: str
    run_uuid: str
    subscription_uuid: str
    is_bad: bool
    created_at: datetime


def of(context: RequestContext) -> tuple[list[NoticeView], int]:
    """Return the newest notices of the caller in the current project, and their number."""
    rows = _mine(context)
    return [_view(row) for row in rows.order_by("-created_at", "-pk")[:MOST_SHOWN]], rows.count()


def clear(context: RequestContext, notice_uuid: str = "") -> None:
    """Delete one notice, or all of them. Does nothing for an unknown one."""
    rows = _mine(context)
    if notice_uuid:
        known = uuid_or_none(notice_uuid)
        rows = rows.filter(uuid=known) if known else rows.none()
    with write_tx(API_ALIAS):
        rows.delete()


@dataclass(frozen=True)
class NoticeSink:
    """Sink that stores messages as notices of a subscription's owner. A repeated message is stored once."""

    subscription: Subscription
    name: str

    @contextmanager
    def open(self) -> Iterator[Send]:
        def send(message: Notification) -> str:
            run_uuid = uuid_or_none(message.body["payload"]["data"].get("workflow", {}).get("uuid", ""))
            _put(self.subscription, message.message_id, message.event_type, title_of(message), run_uuid)
            return "in the bell"

        yield send


def notify_turned_off(subscription: Subscription, reason: str) -> None:
    """Notify the owner that the subscription was turned off."""
    title = f"The subscription {subscription.name} was turned off: {reason}"
    _put(subscription, uuid4(), TURNED_OFF, title, None)


def title_of(message: Notification) -> str:
    """Return a title: "instance.create.error" about web-1 gives "Create of web-1 failed"."""
    data = message.body["payload"]["data"]
    if data.get("sentence"):
        return str(data["sentence"])
    instance = data.get("instance") or {}
    words = message.event_type.split(".")
    phase = PHASES.get(words[-1], "was reported")
    action = words[-2 if words[-1] in PHASES else -1].replace("_", " ")
    about = f" of {instance['display_name']}" if instance.get("display_name") else ""
    fault = data.get("fault") or {}
    why = f": {fault['message']}" if fault.get("message") else ""
    return f"{action.capitalize()}{about} {phase}{why}"


def notify(user_id: str, project_id: str, event_type: str, message_id: UUID, title: str = "") -> None:
    """Notify a user without a subscription; once per message id."""
    _keep(
        {"subscription_uuid": NO_SUBSCRIPTION, "message_id": message_id},
        {"user_id": user_id, "project_id": project_id, "event_type": event_type, "title": title},
    )


def _put(subscription: Subscription, message_id: UUID, event_type: str, title: str, run_uuid: UUID | None) -> None:
    whose = {"user_id": subscription.user_id, "project_id": subscription.project_id}
    _keep(
        {"subscription_uuid": subscription.uuid, "message_id": message_id},
        {**whose, "event_type": event_type, "title": title[:255], "run_uuid": run_uuid},
    )


def _keep(key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    kind = values["event_type"]
    is_bad = kind in (TURNED_OFF, QUOTA_REFUSED, BUDGET_SPENT) or kind.endswith(".error")
    with write_tx(API_ALIAS):
        _, is_new = Notice.objects.get_or_create(
            **key, defaults={**values, "is_bad": is_bad, "created_at": database_now()}
        )
        if is_new:  # open pages then reload the notices
            subject = events.EventSubject(f"notice:{values['user_id']}", values["project_id"])
            events.append(API_ALIAS, subject, "notice.added")


def _mine(context: RequestContext) -> QuerySet[Notice]:
    return Notice.objects.filter(user_id=context.user_id, project_id=context.project_id)


def _title(row: Notice) -> str:
    title = TITLES.get(row.event_type)
    if title is None or row.subscription_uuid != NO_SUBSCRIPTION:  # a subscription's title is complete
        return row.title
    return phrase("%(what)s: %(answer)s", what=title, answer=row.title) if row.title else title


def _view(row: Notice) -> NoticeView:
    return NoticeView(
        uuid=str(row.uuid),
        title=_title(row),
        event_type=row.event_type,
        run_uuid=str(row.run_uuid or ""),
        subscription_uuid="" if row.subscription_uuid == NO_SUBSCRIPTION else str(row.subscription_uuid),
        is_bad=row.is_bad,
        created_at=row.created_at,
    )
