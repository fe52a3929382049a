"""Snapshots that images boot from: their data outlive the snapshots, until the image is deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.volume.models import ImageSnapshot, Snapshot, VolumeType
from conductor.volume.states import AVAILABLE


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Data of a snapshot for a volume that is created from it, and the snapshot's status."""

    uuid: UUID
    size_gb: int
    status: str
    is_bootable: bool
    image_metadata: Mapping[str, str]
    volume_type: VolumeType | None

    @classmethod
    def of_snapshot(cls, row: Snapshot) -> SnapshotSource:
        volume = row.volume
        return cls(row.uuid, row.size_gb, row.status, volume.is_bootable, volume.image_metadata, volume.volume_type)


def find(context: RequestContext, snapshot_id: str, image_id: str) -> SnapshotSource | None:
    """Return what an image of the caller's project keeps of a snapshot; None where it keeps nothing of it."""
    image_uuid, snapshot_uuid = uuid_or_none(image_id), uuid_or_none(snapshot_id)
    if image_uuid is None or snapshot_uuid is None:
        return None
    rows = kept(snapshot_uuid).select_related("volume_type").filter(image_uuid=image_uuid)
    row = (rows if context.is_admin else rows.filter(project_id=context.project_id)).first()
    if row is None:
        return None
    return SnapshotSource(
        row.snapshot_uuid, row.size_gb, AVAILABLE, row.is_bootable, row.image_metadata, row.volume_type
    )


def kept(snapshot_uuid: UUID | str) -> QuerySet[ImageSnapshot]:
    """Return the row of the image that needs the snapshot's data, if there is one."""
    return ImageSnapshot.objects.filter(snapshot_uuid=snapshot_uuid, is_released=False)


def keep(image_id: UUID | str, project_id: str, snapshot_uuids: Collection[str]) -> None:
    """Have the image keep the snapshots' data from now on; in a write transaction. Idempotent.

    Raises NotFound where one of the snapshots is missing.
    """
    snapshots = list(Snapshot.objects.select_related("volume").filter(uuid__in=list(snapshot_uuids)))
    if len(snapshots) != len(snapshot_uuids):
        raise NotFound(f"A snapshot that image {image_id} lists is gone.")
    now = timezone.now()
    ImageSnapshot.objects.bulk_create(
        (
            ImageSnapshot(
                image_uuid=image_id,
                snapshot_uuid=row.uuid,
                project_id=project_id,
                size_gb=row.size_gb,
                volume_type=row.volume.volume_type,
                is_bootable=row.volume.is_bootable,
                image_metadata=row.volume.image_metadata,
                created_at=now,
            )
            for row in snapshots
        ),
        ignore_conflicts=True,
    )


def release(image_uuids: Iterable[UUID | str]) -> list[UUID]:
    """Release data of deleted images: no new volume uses them. Pass each returned uuid to `snapshots.settle`."""
    rows = ImageSnapshot.objects.filter(image_uuid__in=list(image_uuids))
    rows.update(is_released=True)
    return list(rows.values_list("snapshot_uuid", flat=True))


def images() -> list[UUID]:
    """Return the images that keep data of snapshots."""
    return list(ImageSnapshot.objects.filter(is_released=False).values_list("image_uuid", flat=True).distinct())


def without_snapshot(project_id: str) -> QuerySet[ImageSnapshot]:
    """Return the snapshot data that images of a project keep, where the project no longer has the snapshot."""
    of_project = Snapshot.objects.filter(uuid=OuterRef("snapshot_uuid"), project_id=project_id)
    return ImageSnapshot.objects.filter(~Exists(of_project), project_id=project_id)
