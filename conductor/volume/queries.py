"""Queries and lists of the volumes that a caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.time_filters import TimeFilter
from conductor.db.time_filters import condition
from conductor.volume.image_snapshots import without_snapshot
from conductor.volume.lists import order_of, page
from conductor.volume.models import Backup, Snapshot, Volume, VolumeGroup
from conductor.volume.states import SNAPSHOT, VOLUME
from conductor.volume.types import DEFAULT_NAME, DEFAULT_UUID

SORT_KEYS = {
    "id": "uuid",
    "name": "name",
    "display_name": "name",
    "status": "status",
    "size": "size_gb",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "availability_zone": "availability_zone",
    "bootable": "is_bootable",
    "project_id": "project_id",
    "user_id": "user_id",
}
FILTERS = {
    "name": "name",
    "display_name": "name",
    "description": "description",
    "status": "status",
    "availability_zone": "availability_zone",
    "size": "size_gb",
    "user_id": "user_id",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "migration_status": "",
}
UUID_FILTERS = {
    "id": "uuid",
    "group_id": "group_uuid",
    "volume_type_id": "volume_type__uuid",
    "source_volid": "source_uuid",
    "snapshot_id": "source_uuid",
    "attachment_id": "attachments__uuid",
}
OF_SOURCES = {"source_volid": {"source_kind": VOLUME}, "snapshot_id": {"source_kind": SNAPSHOT}}
TIMES = ("created_at", "updated_at")


@dataclass(frozen=True, slots=True)
class VolumeQuery:
    """Query of volumes: filters, order and marker.

    `filters` are equality by a name of FILTERS or UUID_FILTERS; a value that begins with "~" matches a part of it.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    image_metadata: Mapping[str, str] = field(default_factory=dict)
    times: Sequence[TimeFilter] = ()  # by TIMES
    type_name: str | None = None
    is_bootable: bool | None = None
    is_multiattach: bool | None = None
    consumes_quota: bool | None = None
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)  # (key, is_descending)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """Usage of a project's volumes. Snapshots that only an image keeps count as the others do."""

    volumes: int
    gigabytes: int  # including snapshots
    snapshots: int = 0
    groups: int = 0
    backups: int = 0
    backup_gigabytes: int = 0


def missing(volume_id: str) -> NotFound:
    """Return the error for a volume that does not exist, or is not the caller's."""
    return NotFound(f"Volume {volume_id} could not be found.")


def get_visible(context: RequestContext, volume_id: str) -> Volume:
    """Return a volume. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(volume_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(volume_id)
    return row


def list_visible(context: RequestContext, query: VolumeQuery) -> list[Volume]:
    """Return one page of volumes of the caller's project, or of all for an administrator who asks for that."""
    order = order_of(SORT_KEYS, query.sort)
    is_narrowed = bool(query.metadata or query.image_metadata)
    limit = None if is_narrowed or query.limit is None else query.offset + query.limit
    anchors = _visible(context)
    found = page(filtered(context, query), order, anchors=anchors, marker=query.marker, limit=limit)
    # Metadata are JSON text: not all supported databases can search it.
    kept = [row for row in found if is_narrowed is False or _has_metadata(row, query)][query.offset :]
    return kept if query.limit is None else kept[: query.limit]


def filtered(context: RequestContext, query: VolumeQuery) -> QuerySet[Volume]:
    """Return the volumes that a query matches, without its metadata filter."""
    rows = _visible(context)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(project_id=context.project_id)
    for name, value in query.filters.items():
        rows = rows.filter(_condition(name, value))
    for time in query.times:
        rows = rows.filter(condition(time))
    if query.type_name is not None:
        is_default = query.type_name in (DEFAULT_NAME, str(DEFAULT_UUID))
        named = Q(volume_type__name=query.type_name) | Q(volume_type__uuid=uuid_or_none(query.type_name))
        rows = rows.filter(Q(volume_type=None) | named if is_default else named & Q(volume_type__isnull=False))
    if query.consumes_quota is False:  # all volumes do
        rows = rows.none()
    if query.is_bootable is not None:
        rows = rows.filter(is_bootable=query.is_bootable)
    if query.is_multiattach is not None:
        rows = rows.filter(is_multiattach=query.is_multiattach)
    return rows


def count(context: RequestContext, query: VolumeQuery) -> int:
    """Return how many volumes a query matches on all its pages."""
    rows = filtered(context, query)
    if query.metadata or query.image_metadata:
        return sum(_has_metadata(row, query) for row in rows)
    return rows.count()


def summary(context: RequestContext, *, all_projects: bool) -> tuple[int, int, dict[str, list[str]]]:
    """Return the number of volumes, their GiB, and every key of their metadata with its values."""
    rows = filtered(context, VolumeQuery(all_projects=all_projects)).order_by()
    known: dict[str, set[str]] = {}
    for metadata in rows.exclude(metadata={}).values_list("metadata", flat=True):
        for key, value in metadata.items():
            known.setdefault(key, set()).add(value)
    found = _sum(rows)
    return found["count"], found["total"], {key: sorted(values) for key, values in sorted(known.items())}


def _condition(name: str, value: str) -> Q:
    if name in UUID_FILTERS:
        wanted = uuid_or_none(value)
        if wanted is None:
            return Q(pk=None)
        if name == "volume_type_id" and wanted == DEFAULT_UUID:
            return Q(volume_type=None) | Q(volume_type__uuid=wanted)
        return Q(**{UUID_FILTERS[name]: wanted}, **OF_SOURCES.get(name, {}))
    if name == "migration_status":  # no volume migrates: there is one storage
        return Q(pk=None)
    if name == "size":
        return Q(size_gb=int(value)) if value.isascii() and value.isdigit() and len(value) < 10 else Q(pk=None)
    if value.startswith("~"):
        return Q(**{f"{FILTERS[name]}__contains": value[1:]})
    return Q(**{FILTERS[name]: value})


def _has_metadata(row: Volume, query: VolumeQuery) -> bool:
    has_own = query.metadata.items() <= row.metadata.items()
    return bool(has_own) and query.image_metadata.items() <= row.image_metadata.items()


def usage(project_id: str) -> VolumeUsage:
    """Return the usage that counts against the project's limits."""
    volumes, snapshots = _sum(_rows_of(Volume, project_id)), _sum(_rows_of(Snapshot, project_id))
    kept = _sum(without_snapshot(project_id))
    groups, backups = VolumeGroup.objects.filter(project_id=project_id).count(), _sum(_rows_of(Backup, project_id))
    return VolumeUsage(
        volumes=volumes["count"],
        gigabytes=volumes["total"] + snapshots["total"] + kept["total"],
        snapshots=snapshots["count"] + kept["count"],
        groups=groups,
        backups=backups["count"],
        backup_gigabytes=backups["total"],
    )


def usage_by_type(project_id: str) -> dict[str, VolumeUsage]:
    """Return usage by type name, of types that the project uses."""
    found: dict[str, VolumeUsage] = {}
    counted = (
        ("volumes", _rows_of(Volume, project_id), ""),
        ("snapshots", _rows_of(Snapshot, project_id), "volume__"),
        ("snapshots", without_snapshot(project_id), ""),
    )
    for field_name, rows, path in counted:
        named = rows.values_list(f"{path}volume_type__name")
        for name, count, total in named.annotate(count=Count("pk"), total=Sum("size_gb")).order_by():
            key = name or DEFAULT_NAME
            there = found.get(key, VolumeUsage(0, 0))
            gained = {"gigabytes": there.gigabytes + total, field_name: getattr(there, field_name) + count}
            found[key] = replace(there, **gained)
    return found


def _rows_of(model: type[Any], project_id: str) -> QuerySet[Any]:
    return model.objects.filter(project_id=project_id)  # type: ignore[no-any-return]


def _sum(rows: QuerySet[Any]) -> dict[str, int]:
    return rows.aggregate(count=Count("pk"), total=Coalesce(Sum("size_gb"), 0))


def _visible(context: RequestContext) -> QuerySet[Volume]:
    rows = Volume.objects.select_related("volume_type").prefetch_related("attachments")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)
