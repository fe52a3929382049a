"""Images in the form of the Compute API's image proxy (/images, before microversion 2.36)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.page import Page
from conductor.image import queries as image_queries
from conductor.image.attributes import READ_ONLY, WRITABLE
from conductor.image.models import Image
from conductor.image.operations import ImageChange
from conductor.image.queries import ImageQuery
from conductor.services.images import images

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
    """Filters for images; an empty field does not filter. `kind` is `snapshot` or `base`, `server` a server's uuid."""

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
    """An image; `metadata` are its properties as text, `server` is the uuid of the server that it was created from."""

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
    """Delete an image. Raises NotFound, Forbidden if it is protected or another project's, Conflict if it is in use."""
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
        raise Invalid(f"{members[0]} is a field of images, not metadata.", field=f"metadata.{members[0]}")
    before = image(context, ref).metadata
    gone = set(before) - set(given) if replaces_all else set()
    changes = [ImageChange("remove", name) for name in sorted(gone)]
    images.update(context, ref, [*changes, *(ImageChange("add", name, value) for name, value in given.items())])
    return image(context, ref).metadata


def remove_image_metadata(context: RequestContext, ref: str, key: str) -> None:
    """Remove a metadata item. Raises NotFound."""
    image_metadata_item(context, ref, key)  # raises NotFound if the item is missing
    images.update(context, ref, [ImageChange("remove", key)])


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
