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
from conductor.listing import Order
from conductor.transactions import write_tx
from conductor.volume import store, strangers
from conductor.volume.lists import order_of, page
from conductor.volume.models import Snapshot, Volume
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
FILTERS = {"name": "name", "status": "status", "project_id": "project_id", "user_id": "user_id"}


@dataclass(frozen=True, slots=True)
class SnapshotWish:
    """A snapshot to be."""

    name: str = ""
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    group_snapshot_uuid: UUID | None = None
    uuid: UUID | None = None  # where whoever asks has chosen one


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """Which snapshots. `filters` are equality by a name of FILTERS, or begin with "~" for a part of it."""

    filters: Mapping[str, str] = field(default_factory=dict)
    volume_id: str | None = None
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
    """Raises NotFound, also for another project's."""
    wanted = uuid_or_none(snapshot_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(snapshot_id)
    return row


def list_visible(context: RequestContext, query: SnapshotQuery) -> list[Snapshot]:
    """One page of snapshots of the asker's project, or of all for an administrator who asks. Raises Invalid."""
    rows, order = filtered(context, query)
    anchors = _visible(context)
    limit = None if query.metadata or query.limit is None else query.offset + query.limit
    found = page(rows, order, anchors=anchors, marker=query.marker, limit=limit)
    wanted = query.metadata.items()
    kept = [row for row in found if wanted <= row.metadata.items()][query.offset :]
    return kept if query.limit is None else kept[: query.limit]


def filtered(context: RequestContext, query: SnapshotQuery) -> tuple[QuerySet[Snapshot], list[Order]]:
    """The rows that a query means, and their order. Raises Invalid."""
    rows = _visible(context)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(project_id=context.project_id)
    for name, value in query.filters.items():
        suffix, word = ("__contains", value[1:]) if value.startswith("~") else ("", value)
        rows = rows.filter(**{FILTERS[name] + suffix: word})
    if query.volume_id is not None:
        wanted = uuid_or_none(query.volume_id)
        rows = rows.filter(volume__uuid=wanted) if wanted else rows.none()
    if query.uuids:
        rows = rows.filter(uuid__in=[found for found in map(uuid_or_none, query.uuids) if found])
    return rows, order_of(SORT_KEYS, query.sort)


def insert(context: RequestContext, volume: Volume, wish: SnapshotWish) -> Snapshot:
    """A snapshot that is being taken, of the volume's project; inside the write transaction that counted the quota."""
    now = timezone.now()
    return Snapshot.objects.create(
        uuid=wish.uuid or uuid4(),
        volume=volume,
        project_id=volume.project_id,
        user_id=context.user_id,
        name=wish.name,
        description=wish.description,
        metadata=dict(wish.metadata),
        group_snapshot_uuid=wish.group_snapshot_uuid,
        size_gb=volume.size_gb,
        status=CREATING,
        created_at=now,
        updated_at=now,
    )


def describe(row: Snapshot, **values: Any) -> None:
    """Change fields; inside a write transaction."""
    Snapshot.objects.filter(pk=row.pk).update(**values, updated_at=timezone.now())


def turn(snapshot_uuid: UUID | str, before: Iterable[str], after: str) -> bool:
    """Whether it was in one of the states `before`, and now is in `after`; inside a write transaction."""
    rows = Snapshot.objects.filter(uuid=snapshot_uuid, status__in=list(before))
    return bool(rows.update(status=after, status_is_told=False, updated_at=timezone.now()))


def require_available(snapshot_uuid: UUID | str) -> None:
    """In the write transaction that makes a volume of it: what deletes it then finds the volume. Raises Invalid."""
    rows = Snapshot.objects.select_for_update().filter(uuid=snapshot_uuid, status=AVAILABLE)
    if rows.first() is None:
        raise Invalid(f"Invalid snapshot: Snapshot {snapshot_uuid} has just been deleted.")


def begin_deleting(row: Snapshot, *, is_forced: bool = False) -> None:
    """Inside a write transaction. Raises Invalid for one under work, unless `is_forced`."""
    if Volume.objects.filter(source_kind=SNAPSHOT, source_uuid=row.uuid, status=CREATING).exists():
        raise Invalid(f"Invalid snapshot: data of snapshot {row.uuid} are being copied into a volume.")
    before = (row.status,) if is_forced else ("available", ERROR, "error_deleting")
    if not turn(row.uuid, before, DELETING):
        raise Invalid(f"Invalid snapshot: Snapshot status must be available or error to delete, but is {row.status}.")


def begin_discarding(uuids: Sequence[UUID], project_id: str, before: Sequence[str] = (CREATING,)) -> None:
    """Delete those of the snapshots that are the project's and in one of the states `before`; in a write transaction.

    Raises Invalid while data of one are being copied into a volume.
    """
    for row in Snapshot.objects.filter(uuid__in=list(uuids), project_id=project_id, status__in=list(before)):
        begin_deleting(row, is_forced=True)


def settle(snapshot_uuid: UUID | str) -> None:
    """Have no row of one that is being deleted or let go, and no data of the first. Repeatable."""
    row = Snapshot.objects.filter(uuid=snapshot_uuid, status__in=GOING, status_is_told=False).first()
    if row is None:
        return
    if row.status == DELETING:
        store.remove_snapshot(row.uuid)
    else:
        strangers.let_go(strangers.SNAPSHOT, row.uuid)
    with write_tx():
        Snapshot.objects.filter(pk=row.pk, status=row.status).delete()


def settle_all(is_free: Callable[[UUID], bool] = lambda uuid: True) -> int:
    """Finish what was to go and died in between, of snapshots that no workflow is at work on; returns how many."""
    rows = Snapshot.objects.filter(status__in=GOING, status_is_told=False)
    uuids = [uuid for uuid in rows.values_list("uuid", flat=True) if is_free(uuid)]
    for uuid in uuids:
        settle(uuid)
    return len(uuids)


def _visible(context: RequestContext) -> QuerySet[Snapshot]:
    rows = Snapshot.objects.select_related("volume")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def count(context: RequestContext, query: SnapshotQuery) -> int:
    """How many snapshots a query means on all its pages."""
    rows, _ = filtered(context, query)
    wanted = query.metadata.items()
    return sum(wanted <= row.metadata.items() for row in rows) if wanted else rows.count()
