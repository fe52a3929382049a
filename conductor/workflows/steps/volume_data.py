"""Data of new volumes, copied from their sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from conductor.core import disk_images
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.request_spec import ImageSpec
from conductor.image import boot_images
from conductor.image import store as image_store
from conductor.volume import backup_store, store
from conductor.volume.models import Backup, Volume
from conductor.volume.states import BACKUP, SNAPSHOT, VOLUME


def existing(volume_id: str) -> Volume:
    """Return the volume. Raises NotFound."""
    volume = Volume.objects.filter(uuid=volume_id).first()
    if volume is None:
        raise NotFound(f"Volume {volume_id} is gone.")
    return volume


def existing_backup(backup_id: str) -> Backup:
    """Return the backup. Raises NotFound."""
    row = Backup.objects.select_related("parent").filter(uuid=backup_id).first()
    if row is None:
        raise NotFound(f"Backup {backup_id} is gone.")
    return row


def fill(context: RequestContext, volume: Volume, image: Mapping[str, Any] | None) -> None:
    """Copy a volume's data from its source. A blank volume has none. A finished copy is not repeated.

    Raises:
        NotFound: the source is missing.
        Invalid: the data do not fit.
        BuildAborted: the volume's project may not read the image.
        DriverError: the copy failed.
    """
    if image is not None:
        spec = ImageSpec(**image)
        store.fill(volume.uuid, volume.size_gb, readable_file(context, volume, spec), spec.disk_format)
        return
    if volume.source_kind == BACKUP and not store.path_of(volume.uuid).exists():
        row = existing_backup(str(volume.source_uuid))
        backup_store.restore(row.data_uuid, volume.uuid, volume.size_gb)
    if volume.source_kind not in (SNAPSHOT, VOLUME) or volume.source_uuid is None:
        store.ensure(volume.uuid, volume.size_gb)
        return
    where = store.snapshot_path_of if volume.source_kind == SNAPSHOT else store.path_of
    source = where(volume.source_uuid)
    if not source.exists():
        raise NotFound(f"The data of {volume.source_kind} {volume.source_uuid} are gone.")
    store.fill(volume.uuid, volume.size_gb, source, "raw")


def store_as_image(image_id: str, disk_format: str, data: BinaryIO) -> None:
    """Store the data of an image as a host does. `ActivateImage` then uses them."""
    image_store.store_image(image_id, disk_format, data)


def readable_file(context: RequestContext, volume: Volume, image: ImageSpec) -> Path:
    """Return the inspected file of an image to copy to a volume.

    Raises:
        NotFound: there are no data.
        Invalid: the disk is larger than the volume.
        BuildAborted: the data refer to other files, or the volume's project may not read the image.
    """
    boot_images.require_readable(context, volume.project_id, image.image_id)
    path = image_store.path_of(image.image_id)
    if image.disk_format != "raw":
        found = disk_images.inspect(path, image).virtual_bytes
        if found > volume.size_gb * store.GIB:
            raise Invalid(f"The data need {-(-found // store.GIB)} GB; the volume has {volume.size_gb} GB.")
    return path
