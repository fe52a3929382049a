"""Proxy of the image and volume services in the Compute API's old form: images, volumes and snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.image import queries as image_queries
from conductor.image.attributes import READ_ONLY, WRITABLE
from conductor.image.models import Image
from conductor.image.operations import Change
from conductor.image.queries import ImageQuery
from conductor.services.images import images
from conductor.services.types import Page
from conductor.services.volumes import creation, volumes
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes.creation import VolumeAsk
from conductor.volume import snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.queries import VolumeQuery
from conductor.volume.snapshots import SnapshotCreate, SnapshotQuery

__all__ = ["SnapshotCreate", "VolumeAsk"]
ALL_IMAGES = 10_000
# Image status and progress in the old form.
STATUSES: Mapping[str, tuple[str, int]] = {
    "active": ("ACTIVE", 100),
    "queued": ("SAVING", 25),
    "saving": ("SAVING", 50),
    "deleted": ("DELETED", 0),
    "killed": ("ERROR", 0),
}
UNKNOWN = ("UNKNOWN", 0)


@dataclass(frozen=True)
class ImageFilter:
    """Filters for images; empty fields do not narrow. `kind` is `snapshot` or `base`; `server` a server's uuid."""

    name: str = ""
    status: str = ""
    kind: str = ""
    server: str = ""
    min_ram_mb: int | None = None
    min_disk_gb: int | None = None
    changed_since: datetime | None = None
    limit: int = 1000
    marker: str = ""


@dataclass(frozen=True)
class OldImage:
    """An image; `metadata` are its properties as texts, `server` the server that it was created from."""

    image_id: str
    name: str
    status: str
    progress: int
    size: int
    min_ram_mb: int
    min_disk_gb: int
    created_at: datetime
    updated_at: datetime
    server: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def list_images(context: RequestContext, wanted: ImageFilter) -> Page[OldImage]:
    """Return images that the caller may see, newest first. Raises Invalid for an unknown marker."""
    filters = {"name": [wanted.name]} if wanted.name else {}
    query = ImageQuery(filters=filters, limit=ALL_IMAGES, marker=wanted.marker)
    found = [image for image in map(_image, image_queries.list_visible(context, query)) if _fits(image, wanted)]
    return Page(found[: wanted.limit], has_more=len(found) > wanted.limit)


def image(context: RequestContext, ref: str) -> OldImage:
    """Return an image. Raises NotFound."""
    return _image(_row(context, ref))


def delete_image(context: RequestContext, ref: str) -> None:
    """Delete an image. Raises NotFound, Forbidden for a protected one and another's, Conflict for one in use."""
    _row(context, ref)
    images.delete(context, ref)


def image_metadata_item(context: RequestContext, ref: str, key: str) -> str:
    """Return one metadata item of an image. Raises NotFound."""
    found = image(context, ref).metadata
    if key not in found:
        raise NotFound("Metadata item was not found")
    return found[key]


def set_image_metadata(
    context: RequestContext, ref: str, given: Mapping[str, str], *, replaces_all: bool = False
) -> Mapping[str, str]:
    """Set metadata items, and with `replaces_all` remove all others.

    Raises NotFound, Forbidden, Invalid for an item with the name of an image's field.
    """
    members = sorted(set(given) & (set(WRITABLE) | set(READ_ONLY)))
    if members:
        raise Invalid(f"{members[0]} is a member of images and no metadata.", field=f"metadata.{members[0]}")
    before = image(context, ref).metadata
    gone = set(before) - set(given) if replaces_all else set()
    changes = [Change("remove", name) for name in sorted(gone)]
    images.update(context, ref, [*changes, *(Change("add", name, value) for name, value in given.items())])
    return image(context, ref).metadata


def remove_image_metadata(context: RequestContext, ref: str, key: str) -> None:
    """Remove a metadata item. Raises NotFound."""
    image_metadata_item(context, ref, key)  # raises where the item is missing
    images.update(context, ref, [Change("remove", key)])


def list_volumes(context: RequestContext, *, limit: int, offset: int = 0) -> list[Volume]:
    """Return the project's volumes, newest first."""
    return volumes.list_visible(context, VolumeQuery(limit=limit + offset))[offset:]


def volume(context: RequestContext, ref: str) -> Volume:
    """Return a volume. Raises NotFound."""
    return volumes.get_visible(context, ref)


def create_volume(context: RequestContext, ask: VolumeAsk) -> Volume:
    """Create a volume. Raises NotFound for an unknown snapshot, Invalid, QuotaExceeded."""
    if ask.snapshot_id:
        snapshots.get_visible(context, ask.snapshot_id)
    if ask.size_gb is None and not ask.snapshot_id:
        raise Invalid("Invalid input received: a volume needs a size, in GB.", field="volume.size")
    return creation.create(context, ask)


def delete_volume(context: RequestContext, ref: str) -> None:
    """Delete a volume. Raises NotFound, Invalid for one in use."""
    volumes.delete(context, ref)


def list_snapshots(context: RequestContext, *, limit: int, offset: int = 0) -> list[Snapshot]:
    """Return the project's snapshots, newest first."""
    return snapshots.list_visible(context, SnapshotQuery(limit=limit, offset=offset))


def snapshot(context: RequestContext, ref: str) -> Snapshot:
    """Return a snapshot. Raises NotFound."""
    return snapshots.get_visible(context, ref)


def create_snapshot(
    context: RequestContext, volume_id: str, requested: SnapshotCreate, *, may_be_in_use: bool
) -> Snapshot:
    """Create a snapshot. Raises NotFound, Invalid for a volume that is not ready, QuotaExceeded."""
    return volume_snapshots.create(context, volume_id, requested, may_be_in_use=may_be_in_use)


def delete_snapshot(context: RequestContext, ref: str) -> None:
    """Delete a snapshot. Raises NotFound, Invalid."""
    volume_snapshots.delete(context, ref)


def _row(context: RequestContext, ref: str) -> Image:
    try:
        return image_queries.get_visible(context, ref)
    except NotFound:
        raise NotFound("Image not found.") from None


def _image(row: Image) -> OldImage:
    status, progress = STATUSES.get(row.status, UNKNOWN)
    return OldImage(
        image_id=str(row.uuid),
        name=row.name or "",
        status=status,
        progress=progress,
        size=row.size or 0,
        min_ram_mb=row.min_ram_mb,
        min_disk_gb=row.min_disk_gb,
        created_at=row.created_at,
        updated_at=row.updated_at,
        server=str(row.properties.get("instance_uuid", "")),
        metadata={name: str(value) for name, value in row.properties.items()},
    )


def _fits(image: OldImage, wanted: ImageFilter) -> bool:
    is_snapshot = image.metadata.get("image_type") == "snapshot"
    return all(
        (
            not wanted.status or image.status == wanted.status.upper(),
            not wanted.kind or is_snapshot == (wanted.kind == "snapshot"),
            not wanted.server or image.server == wanted.server,
            wanted.min_ram_mb is None or image.min_ram_mb == wanted.min_ram_mb,
            wanted.min_disk_gb is None or image.min_disk_gb == wanted.min_disk_gb,
            wanted.changed_since is None or image.updated_at >= wanted.changed_since,
        )
    )
