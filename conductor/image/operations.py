"""Operations on images: create, update, upload, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from django.db import IntegrityError
from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.core.request_spec import ImageSpec
from conductor.db.transactions import write_tx
from conductor.image import properties, store, tasks
from conductor.image.attributes import MAX_TAGS, WRITABLE
from conductor.image.models import Image
from conductor.image.queries import ImageQuery, get_visible, list_visible

__all__ = [
    "ImageChange", "ImageQuery", "add_tag", "create", "delete", "get_visible", "image_spec", "list_visible",
    "open_data", "remove_tag", "set_active", "settle_broken_uploads", "stage", "take_staged", "update", "upload",
    "usage",
]  # fmt: skip

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ImageChange:
    """One change of an attribute or property: `operation` is add, replace or remove."""

    operation: str
    name: str
    value: Any = None


def create(context: RequestContext, wanted: Mapping[str, Any], *, image_uuid: UUID | None = None) -> Image:
    """Create a queued image without data. `wanted` maps attribute names to values; other names are properties.

    Raises Forbidden for an attribute that the caller may not set, Conflict when `image_uuid` is taken.
    """
    now = timezone.now()
    image = Image(uuid=image_uuid or uuid4(), project_id=context.project_id, created_at=now, updated_at=now)
    _apply(context, image, [ImageChange("add", name, value) for name, value in wanted.items()])
    try:
        with write_tx():
            image.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"Image ID {image.uuid} already exists!") from None
    return image


def update(context: RequestContext, ref: str, changes: Sequence[ImageChange]) -> Image:
    """Apply all of `changes` or none. Raises Forbidden, Conflict (replaced or removed a missing attribute), Invalid."""
    with write_tx():
        image = _lock_own(context, ref)
        _apply(context, image, changes)
        image.updated_at = timezone.now()
        image.save(update_fields=[*(attribute.field for attribute in WRITABLE.values()), "properties", "updated_at"])
    return image


def delete(context: RequestContext, ref: str) -> None:
    """Delete an image and its data.

    Raises Forbidden when protected, Conflict when an image of the same project, or a public one, boots with it: other
    projects cannot prevent a delete by using the image.
    """
    with write_tx():
        image = _lock_own(context, ref)
        if image.is_protected:
            raise Forbidden(f"Image {ref} is protected and cannot be deleted.")
        user = _used_by(image)
        if user is not None:
            name = f"image {user.uuid}" if context.may_see_project(user.project_id) else "a public image"
            raise Conflict(f"Image {ref} could not be deleted because it is in use: {name} boots with it.")
        image.status = "deleted"
        image.deleted_at = image.updated_at = timezone.now()
        image.save(update_fields=["status", "deleted_at", "updated_at"])
    store.remove(image.uuid)


def add_tag(context: RequestContext, ref: str, tag: str) -> None:
    with write_tx():
        image = _lock_own(context, ref)
        if tag not in image.tags:
            image.tags = _checked_tags([*image.tags, tag])
            image.save(update_fields=["tags"])


def remove_tag(context: RequestContext, ref: str, tag: str) -> None:
    with write_tx():
        image = _lock_own(context, ref)
        if tag not in image.tags:
            raise NotFound(f"Tag {tag} of image {ref} could not be found.")
        image.tags = [kept for kept in image.tags if kept != tag]
        image.save(update_fields=["tags"])


def upload(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> Image:
    """Fill a queued image with data and make it active.

    Raises Conflict when it has data or an upload is in progress. Errors of the upload, also in `chunks`, pass through,
    and leave the image queued.
    """
    image = _get_own(context, ref)
    _require_fillable(image)
    with store.upload_claim(image.uuid):
        _start_saving(image)
        try:
            stored = store.write(image.uuid, chunks)
            if not _finish_saving(image, stored):
                raise NotFound(f"Image {ref} was deleted while its data were uploaded.")
        except BaseException:
            _give_up_saving(image.uuid)
            raise
    return get_visible(context, ref)


def stage(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> None:
    """Store data for a queued image, which `take_staged` moves to it.

    Raises Conflict when it has data or an upload is in progress. An interrupted upload leaves the image queued.
    """
    image = _get_own(context, ref)
    _require_fillable(image)
    with store.upload_claim(image.uuid):
        if not Image.objects.filter(pk=image.pk, status="queued", deleted_at=None).exists():
            raise Conflict(f"Image {image.uuid} has data already: upload another image instead.")
        store.stage(image.uuid, image.disk_format or "", chunks)
        size = (store.reported_by_host(image.uuid) or ("", store.StoredData(0, "", "")))[1].size
        if not _in_status(image.uuid, "queued", status="uploading", size=size):
            store.remove(image.uuid)
            raise NotFound(f"Image {ref} was deleted while its data were staged.")


def take_staged(context: RequestContext, ref: str, method: str) -> None:
    """Make the staged data the image's, and record the import. Raises Conflict for an image without any."""
    image = _get_own(context, ref)
    reported = store.reported_by_host(image.uuid) if image.status == "uploading" else None
    if reported is None:
        raise Conflict(f"Image {image.uuid} is {image.status}: stage its data before they are imported.")
    stored = reported[1]
    values: dict[str, Any] = {"size": stored.size, "checksum": stored.md5, "os_hash_value": stored.sha512}
    values["virtual_size"] = store.stated_bytes(image.uuid, image.disk_format)
    with write_tx():
        if not _in_status(image.uuid, "uploading", status="active", **values):
            raise Conflict(f"Image {image.uuid} was changed meanwhile.")
        tasks.record(context, image, method)


def set_active(context: RequestContext, ref: str, *, is_active: bool) -> None:
    """Reactivate an image's data, or restrict them to administrators. Raises Forbidden for one without data."""
    image = _get_own(context, ref)
    status = "active" if is_active else "deactivated"
    if not _in_status(image.uuid, "active", "deactivated", status=status):
        raise Forbidden(
            f"Not allowed to {'reactivate' if is_active else 'deactivate'} image in status '{image.status}'."
        )


def usage(project_id: str) -> dict[str, int]:
    """Return how many images a project has, and their size in MiB."""
    rows = Image.objects.filter(project_id=project_id, deleted_at=None)
    staged = Q(status="uploading")
    amounts = rows.aggregate(
        stored=Coalesce(Sum("size", filter=~staged), 0),
        staged=Coalesce(Sum("size", filter=staged), 0),
        count=Count("pk"),
        busy=Count("pk", filter=Q(status__in=("saving", "uploading"))),
    )
    return {
        "image_size_total": amounts["stored"] >> 20,
        "image_stage_total": amounts["staged"] >> 20,
        "image_count_total": amounts["count"],
        "image_count_uploading": amounts["busy"],
    }


def settle_broken_uploads() -> int:
    """Set images of dead uploaders back to queued. Return how many. For start-up and sweeps."""
    settled = 0
    for image_uuid in Image.objects.filter(status="saving").values_list("uuid", flat=True):
        try:
            with store.upload_claim(image_uuid):
                settled += _give_up_saving(image_uuid)
        except Conflict:
            continue  # its uploader is alive
    return settled


def open_data(context: RequestContext, ref: str) -> tuple[Image, BinaryIO | None]:
    """Return an image and its data for reading; None instead of data while it has none."""
    image = get_visible(context, ref)
    if image.status == "deactivated" and not context.is_admin:
        raise Forbidden(f"The requested image {ref} has been deactivated. Image data download is forbidden.")
    if image.status not in ("active", "deactivated"):
        return image, None
    return image, store.open_image(str(image.uuid))


def image_spec(row: Image) -> ImageSpec:
    """Return the image as the scheduler and drivers see it."""
    return ImageSpec(
        image_id=str(row.uuid),
        name=row.name,
        disk_format=row.disk_format or "",
        container_format=row.container_format or "",
        size=row.size or 0,
        checksum=row.checksum or "",
        min_disk_gb=max(row.min_disk_gb, -(-(row.virtual_size or 0) // GIB)),
        min_ram_mb=row.min_ram_mb,
        properties=dict(row.properties),
    )


def _get_own(context: RequestContext, ref: str) -> Image:
    image = get_visible(context, ref)
    if not context.may_see_project(image.project_id):
        raise Forbidden(f"You are not permitted to modify image {ref}: it belongs to another project.")
    return image


def _lock_own(context: RequestContext, ref: str) -> Image:
    """Return the caller's image, locked until the transaction ends, to be changed and written back."""
    image = Image.objects.select_for_update().filter(pk=_get_own(context, ref).pk, deleted_at=None).first()
    if image is None:
        raise NotFound(f"No image found with ID {ref}")
    return image


def _used_by(image: Image) -> Image | None:
    others = Image.objects.filter(Q(project_id=image.project_id) | Q(visibility="public"), deleted_at=None)
    others = others.exclude(pk=image.pk)
    text = str(image.uuid)
    return others.filter(Q(properties__kernel_id=text) | Q(properties__ramdisk_id=text)).first()


def _apply(context: RequestContext, image: Image, changes: Sequence[ImageChange]) -> None:
    """Change the fields of `image` in memory."""
    wanted = dict(image.properties)
    for change in changes:
        properties.require_writable(change.name)
        if change.name in WRITABLE:
            _set_attribute(context, image, change)
        else:
            _change_property(wanted, change)
    properties.require_valid(context, wanted, image.properties)
    image.properties = wanted


def _set_attribute(context: RequestContext, image: Image, change: ImageChange) -> None:
    attribute = WRITABLE[change.name]
    old = getattr(image, attribute.field)
    if change.operation == "remove":
        raise Forbidden(f"Property '{change.name}' may not be removed.")
    if attribute.is_for_admins and not context.is_admin and change.value != old:
        raise Forbidden(f"Only an administrator may set '{change.name}'.")
    if attribute.is_frozen and image.status != "queued" and change.value != old:
        raise Forbidden(f"Attribute '{change.name}' cannot be changed once the image has data.")
    if change.name == "visibility" and change.value == "public" and old != "public" and not context.is_admin:
        raise Forbidden("Only an administrator may make an image public.")
    setattr(image, attribute.field, _checked_tags(change.value) if change.name == "tags" else change.value)


def _change_property(wanted: dict[str, str], change: ImageChange) -> None:
    if change.operation != "add" and change.name not in wanted:
        raise Conflict(f"Property {change.name} does not exist.")
    if change.operation == "remove":
        del wanted[change.name]
    else:
        wanted[change.name] = change.value


def _checked_tags(tags: Sequence[str]) -> list[str]:
    distinct = sorted(set(tags))
    if len(distinct) > MAX_TAGS:
        raise Invalid(f"An image can have up to {MAX_TAGS} tags, not {len(distinct)}.")
    return distinct


def _require_fillable(image: Image) -> None:
    missing = [name for name in ("disk_format", "container_format") if getattr(image, name) is None]
    if missing:
        raise Invalid(f"Properties {', '.join(missing)} must be set prior to saving data.")


def _start_saving(image: Image) -> None:
    """Set the state to `saving`, also from `saving`: the caller has the upload claim, so a former uploader is dead."""
    started = _in_status(image.uuid, "queued", "saving", status="saving")
    if not started:
        raise Conflict(f"Image {image.uuid} has data already: upload another image instead.")


def _finish_saving(image: Image, stored: store.StoredData) -> bool:
    return _in_status(
        image.uuid,
        "saving",
        status="active",
        size=stored.size,
        checksum=stored.md5,
        os_hash_value=stored.sha512,
        virtual_size=store.stated_bytes(image.uuid, image.disk_format),
    )


def _give_up_saving(image_uuid: UUID) -> bool:
    """Set the image back to queued unless the upload was finished after all; an image without data has no file."""
    if Image.objects.filter(uuid=image_uuid, status="active").exists():
        return False
    store.remove(image_uuid)
    return _in_status(image_uuid, "saving", status="queued")


def _in_status(image_uuid: UUID, *statuses: str, **values: Any) -> bool:
    now: datetime = timezone.now()
    with write_tx():
        rows = Image.objects.filter(uuid=image_uuid, status__in=statuses, deleted_at=None)
        return bool(rows.update(updated_at=now, **values))
