"""Snapshots of volumes: their rows, their states and their data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from conductor.volume import image_snapshots, store, unmanaged_files
from conductor.volume.image_snapshots import SnapshotSource
from conductor.volume.lists import order_of, page
from conductor.volume.models import ImageSnapshot, Snapshot, Volume
from conductor.volume.states import AVAILABLE, CREATING, DELETING, ERROR, SNAPSHOT, UNMANAGING

SORT_KEYS = {
    "id": "uuid",
    "name": "name",
    "display_name": "name",
    "status": "status",
    "volume_size": "size_gb",
    "created_at": "created_at",
    "updated_at": "updated_at",
}
GOING = (DELETING, UNMANAGING)
FILTERS = {
    "name": "name",
    "status": "status",
    "project_id": "project_id",
    "user_id": "user_id",
    "availability_zone": "volume__availability_zone",
}


@dataclass(frozen=True, slots=True)
class SnapshotCreate:
    """A snapshot to create."""

    name: str = ""
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    group_snapshot_uuid: UUID | None = None
    uuid: UUID | None = None  # where the caller chooses it


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """Query of snapshots. `filters` are equality by a name of FILTERS, or begin with "~" for a part of it."""

    filters: Mapping[str, str] = field(default_factory=dict)
    volume_id: str | None = None
    consumes_quota: bool | None = None
    uuids: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def missing(snapshot_id: str) -> NotFound:
    return NotFound(f"Snapshot {snapshot_id[:60]} could not be found.")


def get_visible(context: RequestContext, snapshot_id: str) -> Snapshot:
    """Return a snapshot. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(snapshot_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(snapshot_id)
    return row


def get_source(context: RequestContext, snapshot_id: str, *, image_id: str = "") -> SnapshotSource:
    """Return the source of a volume; with `image_id` also a deleted snapshot that the image keeps. Raises NotFound."""
    kept = image_snapshots.find(context, snapshot_id, image_id)
    return kept or SnapshotSource.of_snapshot(get_visible(context, snapshot_id))


def list_visible(context: RequestContext, query: SnapshotQuery) -> list[Snapshot]:
    """Return one page of snapshots of the caller's project, or of all for an administrator who asks. Raises Invalid."""
    rows, order = filtered(context, query)
    anchors = _visible(context)
    limit = None if query.metadata or query.limit is None else query.offset + query.limit
    found = page(rows, order, anchors=anchors, marker=query.marker, limit=limit)
    wanted = query.metadata.items()
    kept = [row for row in found if wanted <= row.metadata.items()][query.offset :]
    return kept if query.limit is None else kept[: query.limit]


def filtered(context: RequestContext, query: SnapshotQuery) -> tuple[QuerySet[Snapshot], list[SortField]]:
    """Return the rows that a query matches, and their order. Raises Invalid."""
    rows = _visible(context)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(project_id=context.project_id)
    for name, value in query.filters.items():
        suffix, word = ("__contains", value[1:]) if value.startswith("~") else ("", value)
        rows = rows.filter(**{FILTERS[name] + suffix: word})
    if query.consumes_quota is False:  # all snapshots do
        rows = rows.none()
    if query.volume_id is not None:
        wanted = uuid_or_none(query.volume_id)
        rows = rows.filter(volume__uuid=wanted) if wanted else rows.none()
    if query.uuids:
        rows = rows.filter(uuid__in=[found for found in map(uuid_or_none, query.uuids) if found])
    return rows, order_of(SORT_KEYS, query.sort)


def insert(context: RequestContext, volume: Volume, requested: SnapshotCreate) -> Snapshot:
    """Insert a snapshot in creation, of the volume's project; inside the write transaction that counted the quota."""
    now = timezone.now()
    return Snapshot.objects.create(
        uuid=requested.uuid or uuid4(),
        volume=volume,
        project_id=volume.project_id,
        user_id=context.user_id,
        name=requested.name,
        description=requested.description,
        metadata=dict(requested.metadata),
        group_snapshot_uuid=requested.group_snapshot_uuid,
        size_gb=volume.size_gb,
        status=CREATING,
        created_at=now,
        updated_at=now,
    )


def describe(row: Snapshot, **values: Any) -> None:
    """Update fields; inside a write transaction."""
    Snapshot.objects.filter(pk=row.pk).update(**values, updated_at=timezone.now())


def turn(snapshot_uuid: UUID | str, before: Iterable[str], after: str) -> bool:
    """Move the snapshot from one of the states `before` to `after`, if it was in one; inside a write transaction."""
    rows = Snapshot.objects.filter(uuid=snapshot_uuid, status__in=list(before))
    return bool(rows.update(status=after, is_status_forced=False, updated_at=timezone.now()))


def require_available(snapshot_uuid: UUID | str) -> None:
    """Require that a volume can be created from it. Raises Invalid.

    Runs in the transaction that creates the volume, so that a delete finds the volume. Data kept by an image suffice.
    """
    rows = Snapshot.objects.select_for_update().filter(uuid=snapshot_uuid, status=AVAILABLE)
    kept = image_snapshots.kept(snapshot_uuid).select_for_update()
    if rows.first() is None and kept.first() is None:
        raise Invalid(f"Invalid snapshot: Snapshot {snapshot_uuid} has just been deleted.")


def begin_deleting(row: Snapshot, *, is_forced: bool = False) -> None:
    """Begin a delete; inside a write transaction. Raises Invalid for a busy one, unless `is_forced`."""
    if _is_being_copied(row.uuid):
        raise Invalid(f"Invalid snapshot: data of snapshot {row.uuid} are being copied into a volume.")
    before = (row.status,) if is_forced else ("available", ERROR, "error_deleting")
    if not turn(row.uuid, before, DELETING):
        raise Invalid(f"Invalid snapshot: Snapshot status must be available or error to delete, but is {row.status}.")


def begin_unmanaging(row: Snapshot) -> None:
    """Begin to unmanage it; in a write transaction. Raises Invalid for one busy, in a group, or kept by an image."""
    if ImageSnapshot.objects.filter(snapshot_uuid=row.uuid).exists():
        raise Invalid(f"Invalid snapshot: an image boots from the data of snapshot {row.uuid}: delete the image first.")
    if row.group_snapshot_uuid is not None or not turn(row.uuid, (AVAILABLE,), UNMANAGING):
        raise Invalid(
            f"Invalid snapshot: Snapshot {row.uuid} must be available and in no group to be unmanaged, "
            f"but is {row.status}."
        )


def begin_discarding(uuids: Sequence[UUID], project_id: str, before: Sequence[str] = (CREATING,)) -> None:
    """Begin to delete the project's snapshots in one of the states `before`; in a write transaction.

    Raises Invalid while data of one are being copied into a volume.
    """
    for row in Snapshot.objects.filter(uuid__in=list(uuids), project_id=project_id, status__in=list(before)):
        begin_deleting(row, is_forced=True)


def settle(snapshot_uuid: UUID | str) -> None:
    """Finish the delete or release of a snapshot, or of the image that keeps its data. Repeatable.

    The data are deleted with the last of the two, before its row: an interrupted delete is found again.
    """
    going = Snapshot.objects.filter(uuid=snapshot_uuid, status__in=GOING, is_status_forced=False)
    released = ImageSnapshot.objects.filter(snapshot_uuid=snapshot_uuid, is_released=True)
    with write_tx():
        snapshot = Snapshot.objects.select_for_update().filter(uuid=snapshot_uuid).first()
        kept = ImageSnapshot.objects.select_for_update().filter(snapshot_uuid=snapshot_uuid).first()
        if snapshot and kept and not going.delete()[0]:  # the data stay with the other one
            released.delete()
        last = going.first() or released.first()
        if last is None or _is_being_copied(snapshot_uuid):
            return
    if isinstance(last, Snapshot) and last.status == UNMANAGING:
        unmanaged_files.let_go(unmanaged_files.SNAPSHOT, last.uuid)
    else:
        store.remove_snapshot(snapshot_uuid)
    with write_tx():
        last.delete()


def _is_being_copied(snapshot_uuid: UUID | str) -> bool:
    return Volume.objects.filter(source_kind=SNAPSHOT, source_uuid=snapshot_uuid, status=CREATING).exists()


def settle_all(is_free: Callable[[UUID], bool] = lambda uuid: True) -> int:
    """Finish interrupted deletes of snapshots without an active workflow. Return how many."""
    rows = Snapshot.objects.filter(status__in=GOING, is_status_forced=False)
    released = ImageSnapshot.objects.filter(is_released=True)
    found = {*rows.values_list("uuid", flat=True), *released.values_list("snapshot_uuid", flat=True)}
    uuids = [uuid for uuid in found if is_free(uuid)]
    for uuid in uuids:
        settle(uuid)
    return len(uuids)


def _visible(context: RequestContext) -> QuerySet[Snapshot]:
    rows = Snapshot.objects.select_related("volume")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def count(context: RequestContext, query: SnapshotQuery) -> int:
    """Return how many snapshots a query matches on all its pages."""
    rows, _ = filtered(context, query)
    wanted = query.metadata.items()
    return sum(wanted <= row.metadata.items() for row in rows) if wanted else rows.count()
