"""Images of servers: created with the request, filled by a host, active when complete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from conductor.core.errors import Conflict, NotFound
from conductor.db.transactions import write_tx
from conductor.image import store
from conductor.image.models import Image

SNAPSHOT, BACKUP = "snapshot", "backup"
# Properties of the server's own image that its snapshots do not inherit.
NOT_INHERITED = ("cache_in_nova", "img_signature", "signature_verified", "owner_specified.")


def reserve(image_uuid: UUID | str, project_id: str, values: Mapping[str, Any]) -> None:
    """Create a queued image under `image_uuid`; idempotent, also concurrently and after it was discarded."""
    now = timezone.now()
    image = Image(
        uuid=image_uuid,
        project_id=project_id,
        visibility="private",
        container_format="bare",
        created_at=now,
        updated_at=now,
        **values,
    )
    with write_tx():
        Image.objects.bulk_create([image], ignore_conflicts=True)


def activate(image_uuid: UUID | str) -> dict[str, Any]:
    """Adopt the data that a host has stored. Return format and size. Idempotent.

    Raises NotFound for a missing image, Conflict when the host has stored nothing.
    """
    image = Image.objects.filter(uuid=image_uuid, deleted_at=None).first()
    if image is None:
        raise NotFound(f"Image {image_uuid} is gone.")
    if image.status != "active":
        reported = store.reported_by_host(image.uuid)
        if reported is None:
            raise Conflict(f"The host has stored no data of image {image_uuid}.")
        disk_format, stored = reported
        values: dict[str, Any] = {"disk_format": disk_format, "size": stored.size, "checksum": stored.md5}
        values |= {"virtual_size": store.stated_bytes(image.uuid, disk_format)}
        values |= {"os_hash_value": stored.sha512, "status": "active", "updated_at": timezone.now()}
        with write_tx():
            Image.objects.filter(pk=image.pk, deleted_at=None).update(**values)
        image.refresh_from_db()
    return {"disk_format": image.disk_format, "size": image.size}


def activate_without_data(image_uuid: UUID | str) -> None:
    """Activate an image that lists snapshots. Idempotent. Raises NotFound for a missing one."""
    rows = Image.objects.filter(uuid=image_uuid, deleted_at=None)
    if not rows.update(size=0, status="active", updated_at=timezone.now()):
        raise NotFound(f"Image {image_uuid} is gone.")


def discard(image_uuid: UUID | str) -> bool:
    """Delete an image in any state, but not its data; False for one that is protected."""
    now = timezone.now()
    with write_tx():
        images = Image.objects.filter(uuid=image_uuid, deleted_at=None)
        if images.filter(is_protected=True).exists():
            return False
        images.update(status="deleted", deleted_at=now, updated_at=now)
    return True


def drop_data(image_uuid: UUID | str) -> None:
    """Delete the data of an image that was discarded; after the transaction that did so."""
    store.remove(UUID(str(image_uuid)))


def backups_beyond(project_id: str, instance_uuid: str, backup_type: str, rotation: int) -> list[str]:
    """Return uuids of a server's backups of one type, except for the newest `rotation` of them."""
    rows = Image.objects.filter(
        project_id=project_id,
        status="active",
        deleted_at=None,
        properties__image_type=BACKUP,
        properties__backup_type=backup_type,
        properties__instance_uuid=instance_uuid,
    )
    uuids = rows.order_by("-created_at", "-pk").values_list("uuid", flat=True)
    return [str(uuid) for uuid in uuids[rotation:]]


def abandoned(older_than_seconds: float) -> list[Image]:
    """Return images that have waited long for their data; one that a workflow locks may still get them."""
    before = timezone.now() - timedelta(seconds=older_than_seconds)
    rows = Image.objects.filter(
        status="queued",
        deleted_at=None,
        created_at__lt=before,
        properties__has_keys=["instance_uuid", "base_image_ref"],
    )
    return list(rows)


def remove_late_data(within_seconds: float) -> None:
    """Delete data that hosts stored after their image was discarded."""
    since = timezone.now() - timedelta(seconds=within_seconds)
    gone = Image.objects.filter(deleted_at__gte=since, properties__has_key="instance_uuid")
    for uuid in gone.values_list("uuid", flat=True):
        store.remove(uuid)


def inherited(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an image of a server inherits from the server's own image."""
    return {name: value for name, value in properties.items() if not name.startswith(NOT_INHERITED)}
