"""Schedules of recurring server backups and volume snapshots. `due_snapshots` executes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from conductor import row_limits
from conductor.api_db.models import SnapshotSchedule
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict, Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import message
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.recurrence import EVERY, HOURS, STEPS, WEEK, WEEKDAYS, Recurrence
from conductor.db.transactions import database_time, one_at_a_time, write_tx
from conductor.identity import delegation
from conductor.identity.delegation import Power
from conductor.services.accounts import preferences
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.servers import instances
from conductor.services.volumes import volumes

SERVER, VOLUME = "server", "volume"
PLANNED, WAITING, RUNNING, DONE, FAILED, SKIPPED = "planned", "waiting", "running", "done", "failed", "skipped"
ENDED = "ended"
SUBJECTS = (SERVER, VOLUME)
MOST_KEPT = 100
MOST_OF_ONE = 5
MOST_ENDED = 100  # of a project: only the audit log has earlier ones
LAST_MINUTE = 24 * 60 - 1
TIME_OF_DAY = re.compile(r"\A([01]\d|2[0-3]):[0-5]\d\Z")


@dataclass(frozen=True, kw_only=True)
class SnapshotScheduleRequest:
    """A schedule to create: `minute` of the day in `zone`, where "" is the caller's; how many to `keep`."""

    kind: str
    subject_uuid: str
    every: str
    minute: int
    keep: int
    hours: int = 0
    weekday: str = ""
    zone: str = ""

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> SnapshotScheduleRequest:
        """Parse a schedule by the names of the API's fields. Raises Invalid naming the field."""
        kinds = [kind for kind in SUBJECTS if body.get(kind)]
        if len(kinds) != 1:
            raise Invalid(phrase("Name a server or a volume, one of the two."), field="snapshot_schedule")
        if not TIME_OF_DAY.match(body["at"]):
            raise Invalid(phrase("It must be a time of day such as 02:30."), field="at")
        hour, _, minute = body["at"].partition(":")
        same = {name: body[name] for name in ("every", "keep", "hours", "weekday") if name in body}
        return cls(
            kind=kinds[0],
            subject_uuid=body[kinds[0]],
            minute=int(hour) * 60 + int(minute),
            zone=body.get("time_zone", ""),
            **same,
        )


@dataclass(frozen=True)
class ScheduleView:
    """A schedule with the state of its last snapshot, and the reason; `next_at` is None once it has ended."""

    uuid: str
    project_id: str
    user_name: str
    kind: str
    subject_uuid: str
    subject_name: str
    every: str
    hours: int
    weekday: str
    at: str
    time_zone: str
    keep: int
    next_at: datetime | None
    last_at: datetime | None
    state: str
    reason: str
    run_uuid: str
    ended_at: datetime | None
    created_at: datetime


def schedule(context: RequestContext, requested: SnapshotScheduleRequest) -> ScheduleView:
    """Create a schedule for a server or volume.

    Raises NotFound, Forbidden for a reader, Invalid naming the field, Conflict where it has too many.
    """
    require_member(context)
    delegation.require_of(context, Power.LASTING_WORK)
    zone = requested.zone or preferences.of(context.user_id).time_zone
    _check(requested, zone)
    project_id, name = _subject(context, requested)
    now = database_time(API_ALIAS)
    row = SnapshotSchedule(
        project_id=project_id,
        user_id=context.user_id,
        user_name=context.user_name,
        delegated_by=context.delegated_by,
        kind=requested.kind,
        subject_uuid=requested.subject_uuid,
        subject_name=name,
        every=requested.every,
        hours=requested.hours if requested.every == HOURS else 0,
        weekday=requested.weekday if requested.every == WEEK else "",
        minute=requested.minute,
        zone=zone,
        keep=requested.keep,
        state=PLANNED,
        created_at=now,
    )
    row.due_at = row.look_at = recurrence(row).next_after(now)
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"snapshot-schedules:{requested.subject_uuid}")
        if SnapshotSchedule.objects.filter(subject_uuid=requested.subject_uuid, ended_at=None).count() >= MOST_OF_ONE:
            raise Conflict(message("snapshot.too_many", most=MOST_OF_ONE))
        ended = SnapshotSchedule.objects.filter(project_id=row.project_id, ended_at__isnull=False)
        row_limits.keep_newest(ended, MOST_ENDED)
        row.save(force_insert=True)
        record(context, row, "create")
    return view_of(row)


def get(context: RequestContext, schedule_uuid: str) -> ScheduleView:
    """Return a schedule. Raises NotFound also for another project's."""
    return view_of(_row(context, schedule_uuid))


def list_of(
    context: RequestContext, *, kind: str = "", subject_uuid: str = "", limit: int = 100, marker: str = ""
) -> Page[ScheduleView]:
    """Return the project's schedules, newest first; only those of one server or volume if named.

    Raises NotFound for an unknown marker.
    """
    rows = SnapshotSchedule.objects.filter(project_id=context.project_id)
    if context.is_admin and subject_uuid:
        rows = SnapshotSchedule.objects.all()
    if kind:
        rows = rows.filter(kind=kind)
    if subject_uuid:
        wanted = uuid_or_none(subject_uuid)
        rows = rows.filter(subject_uuid=wanted) if wanted else rows.none()
    if marker:
        rows = rows.filter(pk__lt=_row(context, marker).pk)
    found = list(rows.order_by("-pk")[: limit + 1])
    return Page([view_of(row) for row in found[:limit]], has_more=len(found) > limit)


def delete(context: RequestContext, schedule_uuid: str) -> None:
    """Delete a schedule; its snapshots stay. Raises NotFound, Forbidden."""
    with write_tx(API_ALIAS):
        row = _row(context, schedule_uuid)
        require_member(context)
        row.delete()
        record(context, row, "delete")


def recurrence(row: SnapshotSchedule) -> Recurrence:
    """Return the recurrence of a schedule."""
    return Recurrence(row.every, row.minute, row.zone, row.hours, row.weekday)


def view_of(row: SnapshotSchedule) -> ScheduleView:
    """Convert a row to a view."""
    same = ("project_id", "user_name", "kind", "subject_name", "every", "hours", "weekday", "keep")
    return ScheduleView(
        uuid=str(row.uuid),
        subject_uuid=str(row.subject_uuid),
        at=f"{row.minute // 60:02}:{row.minute % 60:02}",
        time_zone=row.zone,
        next_at=None if row.ended_at else row.due_at,
        last_at=row.last_at,
        state=ENDED if row.ended_at else row.state,
        reason=row.words,
        run_uuid=str(row.run_uuid or ""),
        ended_at=row.ended_at,
        created_at=row.created_at,
        **{name: getattr(row, name) for name in same},
    )


def require_member(context: RequestContext) -> None:
    """Raise Forbidden for a reader."""
    if not (context.is_admin or "member" in context.roles):
        raise Forbidden(phrase("Your role in this project is read-only: ask a member to schedule snapshots."))


def record(context: RequestContext, row: SnapshotSchedule, verb: str, **more: object) -> None:
    """Audit an event of a schedule; the system acts on behalf of its creator."""
    entry = AuditEntry(
        action=f"snapshot_schedule.{verb}",
        project_id=row.project_id,
        instance_uuid=row.subject_uuid if row.kind == SERVER else None,
        on_behalf_of=row.user_name if row.user_id != context.user_id else "",
        details={"schedule": str(row.uuid), row.kind: str(row.subject_uuid), **more},
    )
    audit.record(API_ALIAS, context, entry)


def _check(requested: SnapshotScheduleRequest, zone: str) -> None:
    if requested.every not in EVERY:
        raise Invalid(phrase("every must be one of %(choices)s.", choices=", ".join(EVERY)), field="every")
    if requested.every == HOURS and requested.hours not in STEPS:
        raise Invalid(
            phrase(
                "hours must be one of %(choices)s, which divide the day evenly.", choices=", ".join(map(str, STEPS))
            ),
            field="hours",
        )
    if requested.every == WEEK and requested.weekday not in WEEKDAYS:
        raise Invalid(phrase("weekday must be one of %(choices)s.", choices=", ".join(WEEKDAYS)), field="weekday")
    if not 0 <= requested.minute <= LAST_MINUTE:
        raise Invalid(phrase("It must be a time of day such as 02:30."), field="at")
    if zone not in preferences.time_zones():
        raise Invalid(phrase("Select a time zone from the list."), field="time_zone")
    if not 1 <= requested.keep <= MOST_KEPT:
        raise Invalid(phrase("Keep 1 to %(most)s copies.", most=MOST_KEPT), field="keep")


def _subject(context: RequestContext, requested: SnapshotScheduleRequest) -> tuple[str, str]:
    """Return project and name of the server or volume."""
    if requested.kind == VOLUME:
        volume = volumes.get_visible(context, requested.subject_uuid)
        return volume.project_id, volume.name
    server = instances.get(context, requested.subject_uuid)
    if server.is_partial:
        raise CellUnavailable(
            phrase("The cell of instance %(instance)s does not answer.", instance=requested.subject_uuid)
        )
    if not server.image.image_id:
        raise Invalid(message("snapshot.boots_from_volume"), field="server")
    return server.project_id, server.name


def _row(context: RequestContext, schedule_uuid: str) -> SnapshotSchedule:
    wanted = uuid_or_none(schedule_uuid)
    rows: QuerySet[SnapshotSchedule] = SnapshotSchedule.objects.all()
    if not context.is_admin:
        rows = rows.filter(project_id=context.project_id)
    row = rows.filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise NotFound(phrase("Snapshot schedule %(schedule)s could not be found.", schedule=schedule_uuid[:60]))
    return row
