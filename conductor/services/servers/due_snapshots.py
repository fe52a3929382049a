"""Scheduled snapshots that are due. One conductor starts each, on behalf of the schedule's creator.

A periodic lease elects the conductor. After a crash the next one continues: a volume's due time is advanced in the
transaction that starts its snapshot, and the uuid of a server's workflow follows from schedule and time. A snapshot
that other work blocks is retried for an hour, then skipped with a notification.
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
from conductor.core.messages import message, text_of, word
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.journal import periodic_leases
from conductor.journal.models import WorkflowRun
from conductor.services.accounts import credentials, sign_in
from conductor.services.notifications import notices
from conductor.services.servers import server_images
from conductor.services.servers.server_images import ServerImageCreate
from conductor.services.servers.snapshot_schedules import (
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
from conductor.services.volumes import snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.snapshots import SnapshotCreate
from conductor.volume.states import AVAILABLE

log = logging.getLogger(__name__)

NAME = "scheduled snapshots"
EVERY_SECONDS = 10.0
MOST_AT_ONCE = 200
WAIT_SECONDS = 3600.0  # for other work, or a cell that is down
LOOK_AGAIN_SECONDS = 60.0
MARK = "snapshot_schedule"  # metadata key of a volume's scheduled snapshots
GONE = {SERVER: "snapshot.server_gone", VOLUME: "snapshot.volume_gone"}


def carry_out(owner: str) -> bool:
    """Process due schedules, if no other process does; returns whether this process did."""
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=EVERY_SECONDS) as lease:
        if lease is None:
            return False
        look(lease.renew)
    return True


def look(may_go_on: Callable[[], bool] = lambda: True) -> None:
    """Check running snapshots and start due ones, as long as this process has the lease."""
    living = SnapshotSchedule.objects.filter(ended_at=None)
    running = SnapshotSchedule.objects.filter(state=RUNNING).order_by("pk")[:MOST_AT_ONCE]
    due = living.filter(look_at__lte=database_now()).order_by("look_at", "pk")[:MOST_AT_ONCE]
    for rows, work in ((running, _settle), (due, _begin)):
        for row in list(rows):
            if not may_go_on():
                return
            try:
                work(row)
            except (OperationalError, InterfaceError) as error:  # a cell is down: it is retried later
                log.warning("scheduled snapshot waits: schedule=%s %s", row.uuid, type(error).__name__)
            except Exception:  # one failure does not stop the others
                log.exception("scheduled snapshot failed: schedule=%s", row.uuid)


def _begin(row: SnapshotSchedule) -> None:
    if row.state == RUNNING:  # the previous snapshot; the next one starts when it ends
        _wait(row, message("snapshot.previous_running"))
        return
    owner = _owner(row, "asked")
    run_uuid = uuid5(row.uuid, row.due_at.isoformat())
    try:
        if owner is None:
            raise Forbidden(message("snapshot.no_right"))
        require_member(owner)
        BEGIN[row.kind](row, owner, run_uuid)
    except (Forbidden, NotFound) as error:
        words = error.message if isinstance(error, Forbidden) else message(GONE[row.kind])
        _end(row, words)
    except (Conflict, Invalid, Unavailable) as error:  # a volume that is under work is an invalid one
        _wait(row, error.message)
    except NovellaError as error:
        _skip(row, error.message)


def _owner(row: SnapshotSchedule, work: str) -> RequestContext | None:
    """Return the caller that a schedule acts for, with the rights that are left of those that created it."""
    return sign_in.context_for(row.user_id, row.project_id, f"req-{uuid5(row.uuid, work)}", row.delegated_by)


def _begin_backup(row: SnapshotSchedule, owner: RequestContext, run_uuid: UUID) -> None:
    """Start a backup that rotates among this schedule's; skipped if another conductor has started it."""
    if _run_of(row, run_uuid) is None:
        requested = ServerImageCreate(_name(row), {MARK: str(row.uuid)})
        server_images.create_backup(
            owner,
            str(row.subject_uuid),
            requested,
            backup_type=f"schedule-{str(row.uuid)[:8]}",
            rotation=row.keep,
            run_uuid=run_uuid,
        )
    with write_tx(API_ALIAS):
        _begun(row, run_uuid)


def _begin_snapshot(row: SnapshotSchedule, owner: RequestContext, run_uuid: UUID) -> None:
    requested = SnapshotCreate(_name(row), metadata={MARK: str(row.uuid)})
    with write_tx(API_ALIAS):
        if _begun(row, run_uuid):
            snapshots.create(owner, str(row.subject_uuid), requested, may_be_in_use=True, run_uuid=run_uuid)


BEGIN: Mapping[str, Callable[[SnapshotSchedule, RequestContext, UUID], None]] = {
    SERVER: _begin_backup,
    VOLUME: _begin_snapshot,
}


def _begun(row: SnapshotSchedule, run_uuid: UUID) -> bool:
    """Whether this process claimed the due time; inside a write transaction."""
    is_mine = _turn(row, state=RUNNING, words="", run_uuid=run_uuid)
    if is_mine:
        record(system_context(), row, "run", workflow=str(run_uuid))
    return is_mine


def _turn(row: SnapshotSchedule, **values: object) -> bool:
    """Advance to the next time, unless another process has done so. Call it in a write transaction. Missed times count
    as one.
    """
    seen = SnapshotSchedule.objects.filter(pk=row.pk, due_at=row.due_at, ended_at=None)
    following = recurrence(row).next_after(database_time(API_ALIAS))
    return bool(seen.update(last_at=row.due_at, due_at=following, look_at=following, **values))


def _settle(row: SnapshotSchedule) -> None:
    """Store the result of the last workflow. One that is pruned has ended long ago."""
    assert row.run_uuid is not None
    run = _run_of(row, row.run_uuid)
    if run is not None and run.state in LIVE_RUN_STATES:
        return
    is_good = run is None or run.state == RunState.DONE
    if is_good and row.kind == VOLUME:
        _rotate(row)
    words = "" if is_good or run is None else text_of(run.error) or run.cancel_reason or word(run.state)
    with write_tx(API_ALIAS):
        mine = SnapshotSchedule.objects.filter(pk=row.pk, state=RUNNING, run_uuid=row.run_uuid)
        if mine.update(state=DONE if is_good else FAILED, words=words[:255]) and not is_good:
            _notify(row, words)


def _rotate(row: SnapshotSchedule) -> None:
    """Delete old snapshots, after the new one is complete. One that is in use, or no longer marked, stays."""
    owner = _owner(row, "rotated")
    volume = Volume.objects.filter(uuid=row.subject_uuid).first()
    if owner is None or volume is None:
        return
    kept = Snapshot.objects.filter(volume=volume, status=AVAILABLE).order_by("-created_at", "-pk")
    for old in [one for one in kept if one.metadata.get(MARK) == str(row.uuid)][row.keep :]:
        try:
            snapshots.delete(owner, str(old.uuid))
        except NovellaError as error:  # the next round retries
            log.info("old snapshot stays: schedule=%s snapshot=%s %s", row.uuid, old.uuid, error.message)


def _wait(row: SnapshotSchedule, words: str) -> None:
    """Retry in a minute, up to the time limit and to the next due time."""
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
            _notify(row, words)


def _end(row: SnapshotSchedule, words: str) -> None:
    """End a schedule that cannot continue; it stays listed with the reason."""
    with write_tx(API_ALIAS):
        mine = SnapshotSchedule.objects.filter(pk=row.pk, ended_at=None)
        if mine.update(ended_at=database_now(), state=SKIPPED, words=words[:255]):
            record(system_context(), row, "end", why=words)
            _notify(row, f"{words} The schedule has ended.")


def _notify(row: SnapshotSchedule, words: str) -> None:
    """Emit an event, for subscribers and members' notices; inside a write transaction."""
    title = f"{row.subject_name or str(row.subject_uuid)[:8]}: {words}"
    about = row.subject_uuid if row.kind == SERVER else None
    subject = events.EventSubject(f"snapshot_schedule:{row.uuid}", row.project_id, instance_uuid=about)
    data = {
        "schedule": str(row.uuid),
        row.kind: str(row.subject_uuid),
        "due_at": row.due_at.isoformat(),
        "reason": words,
        "sentence": f"{notices.TITLES[notices.SCHEDULE_ERROR]}: {title}",
    }
    events.append(API_ALIAS, subject, notices.SCHEDULE_ERROR, data)
    for user_id in credentials.members(row.project_id):
        key = uuid5(row.uuid, f"{row.due_at.isoformat()}:{words}:{user_id}")
        notices.notify(user_id, row.project_id, notices.SCHEDULE_ERROR, key, title[:255])


def _run_of(row: SnapshotSchedule, run_uuid: UUID) -> WorkflowRun | None:
    """Return the workflow run, from the database where it would be; None where there is none."""
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
