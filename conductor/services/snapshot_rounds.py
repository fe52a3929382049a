"""Scheduled snapshots that are due: one conductor begins each, on behalf of whoever made the schedule.

A periodic lease elects the conductor. One that dies in between is made up for: a volume's time is taken in the
transaction that begins its snapshot, and a server's workflow has an id that follows from schedule and time, so whoever
comes next finds it. What cannot be taken because somebody works there waits for an hour, and then is left out and told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from django.db import InterfaceError, OperationalError

from conductor import events
from conductor.api_db.models import InstanceMapping, SnapshotSchedule
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError, Unavailable
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.journal import periodic_leases
from conductor.journal.models import WorkflowRun
from conductor.services import project_people, server_images, sign_in, volume_snapshots
from conductor.services.notifications import notices
from conductor.services.server_images import ImageWish
from conductor.services.snapshot_schedules import (
    DONE,
    FAILED,
    RUNNING,
    SERVER,
    SKIPPED,
    VOLUME,
    WAITING,
    record,
    recurrence,
    require_member,
)
from conductor.transactions import database_now, database_time, write_tx
from conductor.volume.models import Snapshot, Volume
from conductor.volume.snapshots import SnapshotWish
from conductor.volume.states import AVAILABLE

log = logging.getLogger(__name__)

NAME = "scheduled snapshots"
EVERY_SECONDS = 10.0
MOST_AT_ONCE = 200
WAIT_SECONDS = 3600.0  # for somebody else's work, or a cell that does not answer
LOOK_AGAIN_SECONDS = 60.0
MARK = "snapshot_schedule"  # in the metadata of what a schedule has kept of a volume


def carry_out(owner: str) -> bool:
    """Do what is due, if nobody else does it; whether this process did."""
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=EVERY_SECONDS) as lease:
        if lease is None:
            return False
        look(lease.renew)
    return True


def look(may_go_on: Callable[[], bool] = lambda: True) -> None:
    """See what became of those that run, and begin those that are due, as long as no other process has the lease."""
    living = SnapshotSchedule.objects.filter(ended_at=None)
    running = SnapshotSchedule.objects.filter(state=RUNNING).order_by("pk")[:MOST_AT_ONCE]
    due = living.filter(look_at__lte=database_now()).order_by("look_at", "pk")[:MOST_AT_ONCE]
    for rows, work in ((running, _settle), (due, _begin)):
        for row in list(rows):
            if not may_go_on():
                return
            try:
                work(row)
            except (OperationalError, InterfaceError) as error:  # a cell that does not answer: it comes later
                log.warning("scheduled snapshot waits: schedule=%s %s", row.uuid, type(error).__name__)
            except Exception:  # one that cannot be done holds up no other
                log.exception("scheduled snapshot failed: schedule=%s", row.uuid)


def _begin(row: SnapshotSchedule) -> None:
    if row.state == RUNNING:  # the one before: as it ends, this one's time has come
        _wait(row, "The one before is still being taken.")
        return
    owner = sign_in.context_for(row.user_id, row.project_id, f"req-{uuid5(row.uuid, 'asked')}")
    run_uuid = uuid5(row.uuid, row.due_at.isoformat())
    try:
        if owner is None:
            raise Forbidden("Whoever made it has no right to this project any more.")
        require_member(owner)
        BEGIN[row.kind](row, owner, run_uuid)
    except (Forbidden, NotFound) as error:
        words = error.message if isinstance(error, Forbidden) else f"The {row.kind} is gone."
        _end(row, words)
    except (Conflict, Invalid, Unavailable) as error:  # a volume that is under work is no valid one
        _wait(row, error.message)
    except NovellaError as error:
        _skip(row, error.message)


def _begin_backup(row: SnapshotSchedule, owner: RequestContext, run_uuid: UUID) -> None:
    """A backup that rotates among those of this schedule; one that another conductor has begun is not begun again."""
    if _run_of(row, run_uuid) is None:
        wish = ImageWish(_name(row), {MARK: str(row.uuid)})
        server_images.create_backup(
            owner,
            str(row.subject_uuid),
            wish,
            backup_type=f"schedule-{str(row.uuid)[:8]}",
            rotation=row.keep,
            run_uuid=run_uuid,
        )
    with write_tx(API_ALIAS):
        _begun(row, run_uuid)


def _begin_snapshot(row: SnapshotSchedule, owner: RequestContext, run_uuid: UUID) -> None:
    wish = SnapshotWish(_name(row), metadata={MARK: str(row.uuid)})
    with write_tx(API_ALIAS):
        if _begun(row, run_uuid):
            volume_snapshots.create(owner, str(row.subject_uuid), wish, may_be_in_use=True, run_uuid=run_uuid)


BEGIN: Mapping[str, Callable[[SnapshotSchedule, RequestContext, UUID], None]] = {
    SERVER: _begin_backup,
    VOLUME: _begin_snapshot,
}


def _begun(row: SnapshotSchedule, run_uuid: UUID) -> bool:
    """Whether this process has the time that was due; inside a write transaction."""
    is_mine = _turn(row, state=RUNNING, words="", run_uuid=run_uuid)
    if is_mine:
        record(system_context(), row, "run", workflow=str(run_uuid))
    return is_mine


def _turn(row: SnapshotSchedule, **values: object) -> bool:
    """On to the next time, unless somebody has done that; inside a write transaction. Times that went by are one."""
    seen = SnapshotSchedule.objects.filter(pk=row.pk, due_at=row.due_at, ended_at=None)
    following = recurrence(row).next_after(database_time(API_ALIAS))
    return bool(seen.update(last_at=row.due_at, due_at=following, look_at=following, **values))


def _settle(row: SnapshotSchedule) -> None:
    """Take in how the last workflow ended; one that is gone from the journal has ended long ago."""
    assert row.run_uuid is not None
    run = _run_of(row, row.run_uuid)
    if run is not None and run.state in LIVE_RUN_STATES:
        return
    is_good = run is None or run.state == RunState.DONE
    if is_good and row.kind == VOLUME:
        _rotate(row)
    words = "" if is_good or run is None else str((run.error or {}).get("message") or run.cancel_reason or run.state)
    with write_tx(API_ALIAS):
        mine = SnapshotSchedule.objects.filter(pk=row.pk, state=RUNNING, run_uuid=row.run_uuid)
        if mine.update(state=DONE if is_good else FAILED, words=words[:255]) and not is_good:
            _tell(row, words)


def _rotate(row: SnapshotSchedule) -> None:
    """Only now: no old one goes before the new one is whole. What somebody uses or has unmarked stays."""
    owner = sign_in.context_for(row.user_id, row.project_id, f"req-{uuid5(row.uuid, 'rotated')}")
    volume = Volume.objects.filter(uuid=row.subject_uuid).first()
    if owner is None or volume is None:
        return
    kept = Snapshot.objects.filter(volume=volume, status=AVAILABLE).order_by("-created_at", "-pk")
    for old in [one for one in kept if one.metadata.get(MARK) == str(row.uuid)][row.keep :]:
        try:
            volume_snapshots.delete(owner, str(old.uuid))
        except NovellaError as error:  # the next round takes it
            log.info("old snapshot stays: schedule=%s snapshot=%s %s", row.uuid, old.uuid, error.message)


def _wait(row: SnapshotSchedule, words: str) -> None:
    """A minute, and again; not for longer than it may wait, nor beyond the time that comes after."""
    now = database_time(API_ALIAS)
    last = min(row.due_at + timedelta(seconds=WAIT_SECONDS), recurrence(row).next_after(row.due_at))
    if now >= last:
        _skip(row, words)
        return
    values = {} if row.state == RUNNING else {"state": WAITING, "words": words[:255]}
    with write_tx(API_ALIAS):
        mine = SnapshotSchedule.objects.filter(pk=row.pk, due_at=row.due_at)
        mine.update(look_at=min(last, now + timedelta(seconds=LOOK_AGAIN_SECONDS)), **values)


def _skip(row: SnapshotSchedule, words: str) -> None:
    values = {} if row.state == RUNNING else {"state": SKIPPED, "words": words[:255]}
    with write_tx(API_ALIAS):
        if _turn(row, **values):
            record(system_context(), row, "skip", why=words)
            _tell(row, words)


def _end(row: SnapshotSchedule, words: str) -> None:
    """It cannot be done any more: it stays where it is, and says why."""
    with write_tx(API_ALIAS):
        mine = SnapshotSchedule.objects.filter(pk=row.pk, ended_at=None)
        if mine.update(ended_at=database_now(), state=SKIPPED, words=words[:255]):
            record(system_context(), row, "end", why=words)
            _tell(row, f"{words} The schedule has ended.")


def _tell(row: SnapshotSchedule, words: str) -> None:
    """In the log, for subscribers, and in the bell of whoever works in the project; inside a write transaction."""
    said = f"{row.subject_name or str(row.subject_uuid)[:8]}: {words}"
    about = row.subject_uuid if row.kind == SERVER else None
    subject = events.Subject(f"snapshot_schedule:{row.uuid}", row.project_id, instance_uuid=about)
    data = {
        "schedule": str(row.uuid),
        row.kind: str(row.subject_uuid),
        "due_at": row.due_at.isoformat(),
        "reason": words,
        "said": f"{notices.SAID[notices.SCHEDULE_ERROR]}: {said}",
    }
    events.append(API_ALIAS, subject, notices.SCHEDULE_ERROR, data)
    for user_id in project_people.members(row.project_id):
        key = uuid5(row.uuid, f"{row.due_at.isoformat()}:{words}:{user_id}")
        notices.tell(user_id, row.project_id, notices.SCHEDULE_ERROR, key, said[:255])


def _run_of(row: SnapshotSchedule, run_uuid: UUID) -> WorkflowRun | None:
    """Its workflow, in the database where it would be; None where there is none."""
    alias = API_ALIAS
    if row.kind == SERVER:
        mapping = InstanceMapping.objects.filter(instance_uuid=row.subject_uuid).select_related("cell").first()
        if mapping is None or mapping.cell is None:
            return None
        alias = mapping.cell.name
    return WorkflowRun.objects.using(alias).filter(uuid=run_uuid).first()


def _name(row: SnapshotSchedule) -> str:
    when: datetime = row.due_at.astimezone(ZoneInfo(row.zone))
    return f"{row.subject_name or str(row.subject_uuid)[:8]} {when:%Y-%m-%d %H:%M}"[-255:]
