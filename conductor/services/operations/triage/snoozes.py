"""Snoozes of triage items: until when, why, and when they end early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from conductor import events
from conductor.api_db.models import TriageSnooze
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.events import EventSubject
from conductor.services.audit import audit
from conductor.services.audit.audit import LONGEST_TEXT, AuditEntry
from conductor.services.operations.triage.values import SnoozeView, TriageItem

LONGEST_DAYS = 90
LONGEST = timedelta(days=LONGEST_DAYS)
SNOOZED, WOKEN = "triage.snoozed", "triage.woken"


def put_on(items: list[TriageItem]) -> list[TriageItem]:
    """Return the items, each with its snooze if that is not over."""
    rows: Mapping[str, TriageSnooze] = {
        row.key: row for row in TriageSnooze.objects.filter(until__gt=database_now()).order_by("key")
    }
    return [replace(one, snooze=_view(rows[one.key], one)) if one.key in rows else one for one in items]


def begin(context: RequestContext, item: TriageItem, *, reason: str, until: datetime) -> None:
    """Snooze an item. Raises Invalid for a missing reason or an impossible time."""
    require_reason(reason)
    now = database_time(API_ALIAS)
    if not now < until <= now + LONGEST:
        raise Invalid(
            phrase("Snooze until a time in the future, at most %(longest)s days ahead.", longest=LONGEST_DAYS),
            field="until",
        )
    values = {
        "reason": reason.strip(),
        "until": until,
        "level": item.level,
        "hurt": item.hurt,
        "user_id": context.user_id,
        "user_name": context.user_name,
        "created_at": now,
    }
    with write_tx(API_ALIAS):
        TriageSnooze.objects.filter(until__lt=database_now()).delete()  # expired and not read any more
        TriageSnooze.objects.update_or_create(key=item.key, defaults=values)
        record(context, "triage.snooze", item, reason, until=until.isoformat())
        events.append(API_ALIAS, EventSubject("triage"), SNOOZED, {"key": item.key})


def end(context: RequestContext, key: str) -> None:
    """End an item's snooze at once. Raises NotFound for one that is not snoozed."""
    with write_tx(API_ALIAS):
        gone, _ = TriageSnooze.objects.filter(key=key, until__gt=database_now()).delete()
        if not gone:
            raise NotFound(phrase("%(key)s is not snoozed.", key=key[:60]))
        entry = AuditEntry(action="triage.wake", project_id=context.project_id, details={"key": key[:LONGEST_TEXT]})
        audit.record(API_ALIAS, context, entry)
        events.append(API_ALIAS, EventSubject("triage"), WOKEN, {"key": key})


def record(
    context: RequestContext,
    action: str,
    item: TriageItem,
    reason: str,
    error: Exception | None = None,
    **details: str,
) -> None:
    """Audit an action on an item; inside a transaction of the API database."""
    entry = AuditEntry(
        action=action,
        project_id=item.project_id or context.project_id,
        run_uuid=item.run_uuid or None,
        instance_uuid=item.instance_uuid or None,
        reason=reason,
        error=error,
        details={"key": item.key[:LONGEST_TEXT], **details},
    )
    audit.record(API_ALIAS, context, entry)


def require_reason(reason: str) -> None:
    """Raise Invalid for a reason that is missing or too long."""
    if not reason.strip():
        raise Invalid(phrase("Enter a reason. It is recorded in the audit log."), field="reason")
    if len(reason) > LONGEST_TEXT:
        raise Invalid(phrase("Enter a reason of at most %(longest)s characters.", longest=LONGEST_TEXT), field="reason")


def _view(row: TriageSnooze, item: TriageItem) -> SnoozeView:
    return SnoozeView(row.reason, row.until, row.user_name or row.user_id, row.created_at, _ended(row, item))


def _ended(row: TriageSnooze, item: TriageItem) -> str:
    """Return why a snooze ends early: the item is worse now than when it was snoozed; "" if it is not."""
    if item.level < row.level:
        return phrase("More severe than when it was snoozed.")
    if item.hurt > row.hurt:
        return phrase("Affects more users than when it was snoozed.")
    if item.since > row.created_at:
        return phrase("Happened again since it was snoozed.")
    return ""
