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
from conductor.db.pagination import SortField
from conductor.db.transactions import write_tx
from conductor.volume import backup_store
from conductor.volume.lists import order_of, page
from conductor.volume.models import Backup, Snapshot, Volume
from conductor.volume.states import AVAILABLE, CREATING, DELETING, ERROR

RESTORING = "restoring"
STATUSES = (CREATING, AVAILABLE, RESTORING, DELETING, ERROR, "error_deleting")
TELLABLE = (AVAILABLE, ERROR)  # statuses that an operator may set
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
class BackupCreate:
    """A backup to create. An incremental one stores only what its parent lacks."""

    name: str | None = None
    description: str | None = None
    container: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackupQuery:
    """Query of backups. `filters` are equality by a name of FILTERS or UUID_FILTERS; "~" begins a part of a text."""

    filters: Mapping[str, str] = field(default_factory=dict)
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def missing(backup_id: str) -> NotFound:
    return NotFound(f"Backup {backup_id[:60]} could not be found.")


def get_visible(context: RequestContext, backup_id: str) -> Backup:
    """Return a backup. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(backup_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(backup_id)
    return row


def list_visible(context: RequestContext, query: BackupQuery) -> list[Backup]:
    """Return one page of backups of the caller's project, or of all for an administrator who asks. Raises Invalid."""
    rows, order = filtered(context, query)
    limit = None if query.limit is None else query.offset + query.limit
    return page(rows, order, anchors=_visible(context), marker=query.marker, limit=limit)[query.offset :]


def count(context: RequestContext, query: BackupQuery) -> int:
    """Return how many backups a query matches on all its pages."""
    return filtered(context, query)[0].count()


def filtered(context: RequestContext, query: BackupQuery) -> tuple[QuerySet[Backup], list[SortField]]:
    """Return the rows that a query matches, and their order. Raises Invalid."""
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
    """Return the parent of a volume's next incremental backup."""
    rows = Backup.objects.filter(volume_uuid=volume.uuid, project_id=volume.project_id, status=AVAILABLE)
    return rows.order_by("-data_timestamp", "-pk").first()


def insert(
    context: RequestContext,
    volume: Volume,
    requested: BackupCreate,
    *,
    snapshot: Snapshot | None,
    parent: Backup | None,
) -> Backup:
    """Insert a backup in creation, of the volume's project; inside the write transaction that counted the quota."""
    now, uuid = timezone.now(), uuid4()
    return Backup.objects.create(
        uuid=uuid,
        data_uuid=uuid,
        project_id=volume.project_id,
        user_id=context.user_id,
        name=requested.name,
        description=requested.description,
        container=requested.container,
        availability_zone=requested.availability_zone or volume.availability_zone,
        metadata=dict(requested.metadata),
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
    """Return the volume's attributes for volumes restored from this backup."""
    return {
        "name": volume.name,
        "description": volume.description,
        "metadata": volume.metadata,
        "is_bootable": volume.is_bootable,
        "image_metadata": volume.image_metadata,
    }


def describe(row: Backup, **values: Any) -> None:
    """Update fields; inside a write transaction."""
    Backup.objects.filter(pk=row.pk).update(**values, updated_at=timezone.now())


def turn(backup_uuid: UUID | str, before: Iterable[str], after: str, **values: Any) -> bool:
    """Move the backup from one of the states `before` to `after`, if it was in one; inside a write transaction."""
    rows = Backup.objects.filter(uuid=backup_uuid, status__in=list(before))
    return bool(rows.update(status=after, is_status_forced=False, updated_at=timezone.now(), **values))


def begin_deleting(row: Backup, *, is_forced: bool = False) -> None:
    """Begin a delete; inside a write transaction. Raises Invalid for one that is a parent, or busy."""
    if row.dependents.exists():
        raise Invalid(
            f"Invalid backup: Incremental backups exist for backup {row.uuid}: delete them first, the newest before."
        )
    before = (row.status,) if is_forced else (AVAILABLE, ERROR, "error_deleting")
    if not turn(row.uuid, before, DELETING):
        raise Invalid(f"Invalid backup: Backup status must be available or error to delete, but is {row.status}.")


def settle(backup_uuid: UUID | str) -> None:
    """Remove row and data of a backup in deletion; data that another record names stay. Repeatable."""
    row = Backup.objects.filter(uuid=backup_uuid, status=DELETING, is_status_forced=False).first()
    if row is None:
        return
    if not Backup.objects.filter(data_uuid=row.data_uuid).exclude(pk=row.pk).exists():
        backup_store.remove(row.data_uuid)
    with write_tx():
        Backup.objects.filter(pk=row.pk, status=DELETING).delete()


def settle_all() -> int:
    """Finish interrupted deletes. Return how many."""
    rows = Backup.objects.filter(status=DELETING, is_status_forced=False)
    uuids = list(rows.values_list("uuid", flat=True))
    for uuid in uuids:
        settle(uuid)
    return len(uuids)


def with_dependents(rows: Sequence[Backup]) -> set[int]:
    """Return those of these that are parents of others, by primary key: one query for a whole page."""
    keys = [row.pk for row in rows]
    return {row.pk for row in Backup.objects.filter(dependents__parent__in=keys).only("pk")} if keys else set()


def _visible(context: RequestContext) -> QuerySet[Backup]:
    rows = Backup.objects.all()
    return rows if context.is_admin else rows.filter(project_id=context.project_id)
