"""Uploads of volumes as images; a workflow copies the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.db.transactions import write_tx
from conductor.image import operations as images
from conductor.image.attributes import READ_ONLY, WRITABLE
from conductor.image.models import Image
from conductor.plugins import converters
from conductor.rpc import outbox
from conductor.services.quotas import image_quotas
from conductor.services.volumes import volumes
from conductor.services.volumes.image_mappings import MAPPING
from conductor.volume import operations
from conductor.volume.models import Volume
from conductor.volume.states import AVAILABLE, IN_USE, UPLOADING

FLOW = "upload_volume"
DISK_FORMATS = ("raw", "qcow2", "vmdk", "vdi", "vhdx")
# Image metadata of a volume that is not inherited by its images; an owner may set more names than properties.
NOT_INHERITED = frozenset(
    {*volumes.OF_IMAGES, "kernel_id", "ramdisk_id", "signature_verified", *READ_ONLY, *WRITABLE, MAPPING}
)


@dataclass(frozen=True, slots=True)
class UploadAsk:
    """An image to create."""

    name: str
    disk_format: str = "raw"
    container_format: str = "bare"
    visibility: str = "private"
    is_protected: bool = False
    is_forced: bool = False  # also of a volume in use


def upload(context: RequestContext, volume_id: str, ask: UploadAsk) -> tuple[Volume, Image]:
    """Create an image of a volume.

    Raises NotFound, Invalid for a volume that is not ready or an unknown format, ResourceLocked.
    """
    formats = (*DISK_FORMATS, *sorted(converters.written().difference(DISK_FORMATS)))
    if ask.disk_format not in formats:
        raise Invalid(
            f"Invalid input for field/attribute disk_format. Value: '{ask.disk_format[:60]}'. "
            f"It must be one of {', '.join(formats)}.",
            field="os-volume_upload_image.disk_format",
        )
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        before = (AVAILABLE, IN_USE) if ask.is_forced else (AVAILABLE,)
        was = volume.status
        if not operations.turn(volume.uuid, before, UPLOADING):
            status = operations.counted_status(volume)
            raise Invalid(
                f"Invalid volume: Volume {volume.uuid} status must be {' or '.join(before)}, but is {status}."
            )
        image_quotas.require_count(context.project_id)
        image = images.create(context, _values(volume, ask))
        wanted = outbox.NewRun(
            flow=FLOW,
            action=FLOW,
            context=context,
            resources=[f"volume:{volume.uuid}", f"image:{image.uuid}"],
            instance_name=volume.name or str(volume.uuid),
            inputs={
                "volume_id": str(volume.uuid),
                "image_id": str(image.uuid),
                "disk_format": ask.disk_format,
                "status_before": was,
            },
        )
        outbox.open_run(API_ALIAS, wanted)
    volume.status = UPLOADING
    return volume, image


def _values(volume: Volume, ask: UploadAsk) -> Mapping[str, Any]:
    inherited = {name: value for name, value in volume.image_metadata.items() if name not in NOT_INHERITED}
    return {
        **inherited,
        "name": ask.name,
        "disk_format": ask.disk_format,
        "container_format": ask.container_format,
        "visibility": ask.visibility,
        "protected": ask.is_protected,
        "min_disk": volumes.number_of(volume.image_metadata, "min_disk") or volume.size_gb,
        "min_ram": volumes.number_of(volume.image_metadata, "min_ram"),
    }
