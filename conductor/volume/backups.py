"""Backups of volumes: their rows, their states, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.listing import Order
from conductor.transactions import write_tx
from conductor.volume import backup_store
from conductor.volume.lists import order_of, page
from conductor.volume.models import Backup, Snapshot, Volume
from conductor.volume.states import AVAILABLE, CREATING, DELETING, ERROR

RESTORING = "restoring"
STATUSES = (CREATING, AVAILABLE, RESTORING, DELETING, ERROR, "error_deleting")
TELLABLE = (AVAILABLE, ERROR)  # what an operator may say that a backup is
SORT_KEYS = {
    "id": "uuid",
    "name": "name",
    "status": "status",
    "size": "size_gb",
    "volume_id": "volume_uuid",
    "created_at": "created_at",
    "updated_at": "updated_at",
}
FILTERS = {"name": "name", "status": "status", "project_id": "project_id", "user_id": "user_id"}
UUID_FILTERS = {"volume_id": "volume_uuid", "snapshot_id": "snapshot_uuid", "id": "uuid"}


@dataclass(frozen=True, slots=True)
class BackupWish:
    """A backup to be. An incremental one holds what its parent has not."""

    name: str | None = None
    description: str | None = None
    container: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackupQuery:
    """Which backups. `filters` are equality by a name of FILTERS or UUID_FILTERS; "~" begins a part of a text."""

    filters: Mapping[str, str] = field(default_factory=dict)
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def missing(backup_id: str) -> NotFound:
    return NotFound(f"Backup {backup_id[:60]} could not be found.")


def get_visible(context: RequestContext, backup_id: str) -> Backup:
    """Raises NotFound, also for another project's."""
    wanted = uuid_or_none(backup_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(backup_id)
    return row


def list_visible(context: RequestContext, query: BackupQuery) -> list[Backup]:
    """One page of backups of the asker's project, or of all for an administrator who asks. Raises Invalid."""
    rows, order = filtered(context, query)
    limit = None if query.limit is None else query.offset + query.limit
    return page(rows, order, anchors=_visible(context), marker=query.marker, limit=limit)[query.offset :]


def count(context: RequestContext, query: BackupQuery) -> int:
    """How many backups a query means on all its pages."""
    return filtered(context, query)[0].count()


def filtered(context: RequestContext, query: BackupQuery) -> tuple[QuerySet[Backup], list[Order]]:
    """The rows that a query means, and their order. Raises Invalid."""
    rows = _visible(context)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(project_id=context.project_id)
    for name, value in query.filters.items():
        if name in UUID_FILTERS:
            wanted = uuid_or_none(value)
            rows = rows.filter(**{UUID_FILTERS[name]: wanted}) if wanted else rows.none()
            continue
        suffix, word = ("__contains", value[1:]) if value.startswith("~") else ("", value)
        rows = rows.filter(**{FILTERS[name] + suffix: word})
    return rows, order_of(SORT_KEYS, query.sort)


def newest_of(volume: Volume) -> Backup | None:
    """What the next incremental backup of a volume is built upon."""
    rows = Backup.objects.filter(volume_uuid=volume.uuid, project_id=volume.project_id, status=AVAILABLE)
    return rows.order_by("-data_timestamp", "-pk").first()


def insert(
    context: RequestContext, volume: Volume, wish: BackupWish, *, snapshot: Snapshot | None, parent: Backup | None
) -> Backup:
    """A backup that is being made, of the volume's project; inside the write transaction that counted the quota."""
    now, uuid = timezone.now(), uuid4()
    return Backup.objects.create(
        uuid=uuid,
        data_uuid=uuid,
        project_id=volume.project_id,
        user_id=context.user_id,
        name=wish.name,
        description=wish.description,
        container=wish.container,
        availability_zone=wish.availability_zone or volume.availability_zone,
        metadata=dict(wish.metadata),
        volume_uuid=volume.uuid,
        snapshot_uuid=snapshot.uuid if snapshot else None,
        parent=parent,
        size_gb=snapshot.size_gb if snapshot else volume.size_gb,
        volume_facts=facts_of(volume),
        status=CREATING,
        data_timestamp=snapshot.created_at if snapshot else now,
        created_at=now,
        updated_at=now,
    )


def facts_of(volume: Volume) -> dict[str, Any]:
    """What a volume that is made of the backup shall have of this one, beside its data."""
    return {
        "name": volume.name,
        "description": volume.description,
        "metadata": volume.metadata,
        "is_bootable": volume.is_bootable,
        "image_metadata": volume.image_metadata,
    }


def describe(row: Backup, **values: Any) -> None:
    """Change fields; inside a write transaction."""
    Backup.objects.filter(pk=row.pk).update(**values, updated_at=timezone.now())


def turn(backup_uuid: UUID | str, before: Iterable[str], after: str, **values: Any) -> bool:
    """Whether it was in one of the states `before`, and now is in `after`; inside a write transaction."""
    rows = Backup.objects.filter(uuid=backup_uuid, status__in=list(before))
    return bool(rows.update(status=after, status_is_told=False, updated_at=timezone.now(), **values))


def begin_deleting(row: Backup, *, is_forced: bool = False) -> None:
    """Inside a write transaction. Raises Invalid for one that others are built upon, or that is under work."""
    if row.dependents.exists():
        raise Invalid(
            f"Invalid backup: Incremental backups exist for backup {row.uuid}: delete them first, the newest before."
        )
    before = (row.status,) if is_forced else (AVAILABLE, ERROR, "error_deleting")
    if not turn(row.uuid, before, DELETING):
        raise Invalid(f"Invalid backup: Backup status must be available or error to delete, but is {row.status}.")


def settle(backup_uuid: UUID | str) -> None:
    """Have neither row nor data of one that is being deleted; data that another record names stay. Repeatable."""
    row = Backup.objects.filter(uuid=backup_uuid, status=DELETING, status_is_told=False).first()
    if row is None:
        return
    if not Backup.objects.filter(data_uuid=row.data_uuid).exclude(pk=row.pk).exists():
        backup_store.remove(row.data_uuid)
    with write_tx():
        Backup.objects.filter(pk=row.pk, status=DELETING).delete()


def settle_all() -> int:
    """Finish deletes that died in between; returns how many."""
    rows = Backup.objects.filter(status=DELETING, status_is_told=False)
    uuids = list(rows.values_list("uuid", flat=True))
    for uuid in uuids:
        settle(uuid)
    return len(uuids)


def with_dependents(rows: Sequence[Backup]) -> set[int]:
    """Which of these have others built upon them, by primary key: one query for a whole page."""
    keys = [row.pk for row in rows]
    return {row.pk for row in Backup.objects.filter(dependents__parent__in=keys).only("pk")} if keys else set()


def _visible(context: RequestContext) -> QuerySet[Backup]:
    rows = Backup.objects.all()
    return rows if context.is_admin else rows.filter(project_id=context.project_id)
