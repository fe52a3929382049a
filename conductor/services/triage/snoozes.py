"""Lines that operators have put off: until when, why, and when that does not hold any more."""

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
from conductor.events import Subject
from conductor.services import audit
from conductor.services.audit import LONGEST_TEXT, Entry
from conductor.services.triage.values import SnoozeView, TriageItem
from conductor.transactions import database_now, database_time, write_tx

LONGEST_DAYS = 90
LONGEST = timedelta(days=LONGEST_DAYS)
SNOOZED, WOKEN = "triage.snoozed", "triage.woken"


def put_on(items: list[TriageItem]) -> list[TriageItem]:
    """The lines, each with what was said when it was put off, where that time is not over."""
    rows: Mapping[str, TriageSnooze] = {
        row.key: row for row in TriageSnooze.objects.filter(until__gt=database_now()).order_by("key")
    }
    return [replace(one, snooze=_view(rows[one.key], one)) if one.key in rows else one for one in items]


def begin(context: RequestContext, item: TriageItem, *, reason: str, until: datetime) -> None:
    """Put a line off. Raises Invalid for a missing reason or a moment that cannot be."""
    require_reason(reason)
    now = database_time(API_ALIAS)
    if not now < until <= now + LONGEST:
        raise Invalid(f"Until when? It is a moment from now on, at most {LONGEST_DAYS} days ahead.", field="until")
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
        TriageSnooze.objects.filter(until__lt=database_now()).delete()  # they hold no more, and nobody asks for them
        TriageSnooze.objects.update_or_create(key=item.key, defaults=values)
        record(context, "triage.snooze", item, reason, until=until.isoformat())
        events.append(API_ALIAS, Subject("triage"), SNOOZED, {"key": item.key})


def end(context: RequestContext, key: str) -> None:
    """Have a line back at once. Raises NotFound for one that is not put off."""
    with write_tx(API_ALIAS):
        gone, _ = TriageSnooze.objects.filter(key=key, until__gt=database_now()).delete()
        if not gone:
            raise NotFound(f"{key[:60]} is not put off.")
        entry = Entry(action="triage.wake", project_id=context.project_id, details={"key": key[:LONGEST_TEXT]})
        audit.record(API_ALIAS, context, entry)
        events.append(API_ALIAS, Subject("triage"), WOKEN, {"key": key})


def record(
    context: RequestContext,
    action: str,
    item: TriageItem,
    reason: str,
    error: Exception | None = None,
    **details: str,
) -> None:
    """Put on record what was done about a line; inside a transaction of the API database."""
    entry = Entry(
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
    """Raises Invalid for a reason that is missing or too long."""
    if not reason.strip():
        raise Invalid("Say why: others will ask.", field="reason")
    if len(reason) > LONGEST_TEXT:
        raise Invalid(f"A reason has at most {LONGEST_TEXT} characters.", field="reason")


def _view(row: TriageSnooze, item: TriageItem) -> SnoozeView:
    return SnoozeView(row.reason, row.until, row.user_name or row.user_id, row.created_at, _ended(row, item))


def _ended(row: TriageSnooze, item: TriageItem) -> str:
    """Why it comes back before its time: somebody has put off something less bad than what is there now."""
    if item.level < row.level:
        return phrase("It does more harm now than when it was put off.")
    if item.hurt > row.hurt:
        return phrase("It hurts more than when it was put off.")
    if item.since > row.created_at:
        return phrase("It has happened again since it was put off.")
    return ""
