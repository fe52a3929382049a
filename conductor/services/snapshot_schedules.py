"""Schedules of snapshots: backups of a server, or snapshots of a volume, that come round. `snapshot_rounds` does it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from conductor.api_db.models import SnapshotSchedule
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict, Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.recurrence import EVERY, HOURS, STEPS, WEEK, WEEKDAYS, Recurrence
from conductor.services import audit, instances, preferences, volumes
from conductor.services.audit import Entry
from conductor.services.values import Page
from conductor.transactions import database_time, one_at_a_time, write_tx

SERVER, VOLUME = "server", "volume"
PLANNED, WAITING, RUNNING, DONE, FAILED, SKIPPED = "planned", "waiting", "running", "done", "failed", "skipped"
ENDED = "ended"
SUBJECTS = (SERVER, VOLUME)
MOST_KEPT = 100
MOST_OF_ONE = 5
LAST_MINUTE = 24 * 60 - 1


@dataclass(frozen=True, kw_only=True)
class ScheduleWish:
    """What is asked for: `minute` of the day in `zone`, where empty is the asker's; how many to `keep`."""

    kind: str
    subject_uuid: str
    every: str
    minute: int
    keep: int
    hours: int = 0
    weekday: str = ""
    zone: str = ""


@dataclass(frozen=True)
class ScheduleView:
    """A schedule with the state of its last time, and its reason; `next_at` is None once it has ended."""

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


def schedule(context: RequestContext, wish: ScheduleWish) -> ScheduleView:
    """Have a server or volume kept again and again, from the next time on.

    Raises NotFound, Forbidden for who only reads, Invalid naming the field, Conflict where it has too many.
    """
    require_member(context)
    zone = wish.zone or preferences.of(context.user_id).time_zone
    _check(wish, zone)
    project_id, name = _subject(context, wish)
    now = database_time(API_ALIAS)
    row = SnapshotSchedule(
        project_id=project_id,
        user_id=context.user_id,
        user_name=context.user_name,
        kind=wish.kind,
        subject_uuid=wish.subject_uuid,
        subject_name=name,
        every=wish.every,
        hours=wish.hours if wish.every == HOURS else 0,
        weekday=wish.weekday if wish.every == WEEK else "",
        minute=wish.minute,
        zone=zone,
        keep=wish.keep,
        state=PLANNED,
        created_at=now,
    )
    row.due_at = row.look_at = recurrence(row).next_after(now)
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"snapshot-schedules:{wish.subject_uuid}")
        if SnapshotSchedule.objects.filter(subject_uuid=wish.subject_uuid, ended_at=None).count() >= MOST_OF_ONE:
            raise Conflict(f"It has {MOST_OF_ONE} schedules already: delete one first.")
        row.save(force_insert=True)
        record(context, row, "create")
    return view_of(row)


def get(context: RequestContext, schedule_uuid: str) -> ScheduleView:
    """Raises NotFound also for another project's."""
    return view_of(_row(context, schedule_uuid))


def list_of(
    context: RequestContext, *, kind: str = "", subject_uuid: str = "", limit: int = 100, marker: str = ""
) -> Page[ScheduleView]:
    """The project's, the newest first; of one server or volume where it is named. Raises NotFound for the marker."""
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
    """It comes round no more; what it has kept stays. Raises NotFound, Forbidden."""
    with write_tx(API_ALIAS):
        row = _row(context, schedule_uuid)
        require_member(context)
        row.delete()
        record(context, row, "delete")


def recurrence(row: SnapshotSchedule) -> Recurrence:
    """When it comes round."""
    return Recurrence(row.every, row.minute, row.zone, row.hours, row.weekday)


def view_of(row: SnapshotSchedule) -> ScheduleView:
    """As pages and the API show it."""
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
    """Raises Forbidden for who only reads."""
    if not (context.is_admin or "member" in context.roles):
        raise Forbidden("Who only reads in this project cannot schedule snapshots.")


def record(context: RequestContext, row: SnapshotSchedule, verb: str, **more: object) -> None:
    """Put on record what became of a schedule; what the product did is on behalf of whoever made it."""
    entry = Entry(
        action=f"snapshot_schedule.{verb}",
        project_id=row.project_id,
        instance_uuid=row.subject_uuid if row.kind == SERVER else None,
        on_behalf_of=row.user_name if row.user_id != context.user_id else "",
        details={"schedule": str(row.uuid), row.kind: str(row.subject_uuid), **more},
    )
    audit.record(API_ALIAS, context, entry)


def _check(wish: ScheduleWish, zone: str) -> None:
    if wish.every not in EVERY:
        raise Invalid(f"every is one of {', '.join(EVERY)}.", field="every")
    if wish.every == HOURS and wish.hours not in STEPS:
        raise Invalid(f"hours is one of {', '.join(map(str, STEPS))}: they end with the day.", field="hours")
    if wish.every == WEEK and wish.weekday not in WEEKDAYS:
        raise Invalid(f"weekday is one of {', '.join(WEEKDAYS)}.", field="weekday")
    if not 0 <= wish.minute <= LAST_MINUTE:
        raise Invalid("at is a time of day such as 02:30.", field="at")
    if zone not in preferences.time_zones():
        raise Invalid("Choose a time zone of the list.", field="time_zone")
    if not 1 <= wish.keep <= MOST_KEPT:
        raise Invalid(f"From 1 to {MOST_KEPT} can be kept.", field="keep")


def _subject(context: RequestContext, wish: ScheduleWish) -> tuple[str, str]:
    """Project and name of what is to be kept."""
    if wish.kind == VOLUME:
        volume = volumes.get_visible(context, wish.subject_uuid)
        return volume.project_id, volume.name
    server = instances.get(context, wish.subject_uuid)
    if server.is_partial:
        raise CellUnavailable(f"The cell of instance {wish.subject_uuid} does not answer.")
    if not server.image.image_id:
        raise Invalid("This server boots from a volume: schedule snapshots of its volumes instead.", field="server")
    return server.project_id, server.name


def _row(context: RequestContext, schedule_uuid: str) -> SnapshotSchedule:
    wanted = uuid_or_none(schedule_uuid)
    rows: QuerySet[SnapshotSchedule] = SnapshotSchedule.objects.all()
    if not context.is_admin:
        rows = rows.filter(project_id=context.project_id)
    row = rows.filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise NotFound(f"Snapshot schedule {schedule_uuid[:60]} could not be found.")
    return row
