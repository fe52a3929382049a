"""Announcements of operators to all users, each for a period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet

from conductor.api_db.models import Announcement
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.db.transactions import database_time, one_at_a_time, write_tx

SEVERITIES = ("critical", "warning", "info")  # the most severe first
LONGEST_TITLE, LONGEST_TEXT = 120, 1000
MOST_EVENTS_SENT = 20  # current or planned
DEFAULT_LIMIT = 100
CHANGEABLE = frozenset({"title", "text", "severity", "begins_at", "ends_at"})


@dataclass(frozen=True)
class AnnouncementView:
    """One announcement. `state` says whether it is shown now: "active", "planned" or "over"."""

    uuid: str
    title: str
    text: str
    severity: str
    state: str
    begins_at: datetime
    ends_at: datetime | None
    author: str
    created_at: datetime
    updated_at: datetime


def current() -> list[AnnouncementView]:
    """Return current announcements, which all signed-in users see: the most severe first, then the newest."""
    now = database_time(API_ALIAS)
    rows = _not_over(now).filter(begins_at__lte=now).order_by("-begins_at", "-pk")
    return [_view(row, now) for row in sorted(rows, key=lambda row: SEVERITIES.index(row.severity))]


def list_of(
    context: RequestContext, *, of_all_times: bool = False, limit: int = DEFAULT_LIMIT, marker: str = ""
) -> Page[AnnouncementView]:
    """Return current announcements; for operators also planned and past ones, newest first.

    Raises Forbidden, and Invalid for an unknown marker.
    """
    if not of_all_times:
        found = current()
        names = [one.uuid for one in found]
        if marker and marker not in names:
            raise _no_marker(marker)
        begin = names.index(marker) + 1 if marker else 0
        return Page(found[begin : begin + limit], begin + limit < len(found))
    _require_operator(context)
    rows = Announcement.objects.all()
    if marker:
        last = _row(marker)
        if last is None:
            raise _no_marker(marker)
        rows = rows.filter(pk__lt=last.pk)
    kept = list(rows.order_by("-pk")[: limit + 1])
    now = database_time(API_ALIAS)
    return Page([_view(row, now) for row in kept[:limit]], len(kept) > limit)


def get(context: RequestContext, announcement_uuid: str) -> AnnouncementView:
    """Return an announcement. Raises NotFound; except for operators also where it is not current."""
    row, now = _row(announcement_uuid), database_time(API_ALIAS)
    if row is None or not (context.is_admin or _state(row, now) == "active"):
        raise _missing(announcement_uuid)
    return _view(row, now)


def announce(context: RequestContext, requested: Mapping[str, Any]) -> AnnouncementView:
    """Create an announcement; without a begin it begins now. Times are text or datetimes.

    Raises Forbidden, Invalid naming the field, Conflict.
    """
    _require_operator(context)
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, "announcements")
        now = database_time(API_ALIAS)
        values = _checked({"text": "", "severity": "info", "ends_at": None, **requested}, now)
        if _not_over(now).count() >= MOST_EVENTS_SENT:
            raise Conflict(
                phrase(
                    "%(most)s announcements are already shown or planned. Withdraw one first.", most=MOST_EVENTS_SENT
                )
            )
        row = Announcement.objects.create(**values, author=context.user_name, created_at=now, updated_at=now)
    return _view(row, now)


def change(context: RequestContext, announcement_uuid: str, values: Mapping[str, Any]) -> AnnouncementView:
    """Change an announcement's text or period. Raises Forbidden, NotFound, Invalid naming the field."""
    _require_operator(context)
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, "announcements")
        row, now = _row(announcement_uuid), database_time(API_ALIAS)
        if row is None:
            raise _missing(announcement_uuid)
        was = {name: getattr(row, name) for name in CHANGEABLE}
        checked = _checked({**was, **values}, now)
        for name, value in checked.items():
            setattr(row, name, value)
        row.updated_at = now
        row.save(update_fields=[*checked, "updated_at"])
    return _view(row, now)


def withdraw(context: RequestContext, announcement_uuid: str) -> None:
    """Delete an announcement; only the audit log keeps it. Raises Forbidden, NotFound."""
    _require_operator(context)
    with write_tx(API_ALIAS):
        row = _row(announcement_uuid)
        if row is None:
            raise _missing(announcement_uuid)
        row.delete()


def _checked(values: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the valid values. Raises Invalid naming the field."""
    title, text = " ".join(values["title"].split()), values["text"].strip()
    begins_at, ends_at = (_time(values, name) for name in ("begins_at", "ends_at"))
    if not 1 <= len(title) <= LONGEST_TITLE or "\0" in title:
        raise Invalid(
            phrase("Enter a title of 1 to %(longest)s characters.", longest=LONGEST_TITLE), field="announcement.title"
        )
    if len(text) > LONGEST_TEXT or "\0" in text:
        raise Invalid(
            phrase("Enter a text of at most %(longest)s characters.", longest=LONGEST_TEXT), field="announcement.text"
        )
    if values["severity"] not in SEVERITIES:
        raise Invalid(
            phrase("Select a severity: %(choices)s.", choices=", ".join(SEVERITIES)), field="announcement.severity"
        )
    begins_at = begins_at or now
    if ends_at is not None and ends_at <= begins_at:
        raise Invalid(phrase("The end must be after the beginning."), field="announcement.ends_at")
    return {"title": title, "text": text, "severity": values["severity"], "begins_at": begins_at, "ends_at": ends_at}


def _not_over(now: datetime) -> QuerySet[Announcement]:
    return Announcement.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now))


def _state(row: Announcement, now: datetime) -> str:
    if row.ends_at is not None and row.ends_at <= now:
        return "over"
    return "active" if row.begins_at <= now else "planned"


def _row(announcement_uuid: str) -> Announcement | None:
    known = uuid_or_none(announcement_uuid)
    return Announcement.objects.filter(uuid=known).first() if known else None


def _view(row: Announcement, now: datetime) -> AnnouncementView:
    own: dict[str, Any] = {"uuid": str(row.uuid), "state": _state(row, now)}
    others = [one.name for one in fields(AnnouncementView) if one.name not in own]
    plain: dict[str, Any] = {name: getattr(row, name) for name in others}
    return AnnouncementView(**own, **plain)


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can publish announcements."))


def _missing(announcement_uuid: str) -> NotFound:
    return NotFound(f"Announcement {announcement_uuid[:60]} could not be found.")


def _no_marker(marker: str) -> Invalid:
    return Invalid(f"Announcement {marker[:60]} could not be found.", field="marker")


def _time(values: Mapping[str, Any], name: str) -> datetime | None:
    value = values.get(name) or None
    return moment(value, f"announcement.{name}") if isinstance(value, str) else value


def moment(text: str, field: str) -> datetime:
    """Parse a time of a request's body; one without a zone is in UTC. Raises Invalid."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(
            phrase("Enter a time such as 2026-01-31T12:00:00Z, not %(text)s.", text=text[:60]), field=field
        ) from None
