"""Reimaging of volumes: replaces the data by an image's, and keeps all else."""

from __future__ import annotations

from dataclasses import asdict

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.db.transactions import write_tx
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible as get_image
from conductor.rpc import outbox
from conductor.services.volumes import volumes
from conductor.services.volumes.creation import GIB
from conductor.volume import operations
from conductor.volume.states import AVAILABLE, DOWNLOADING, ERROR, IN_USE, RESERVED

FLOW = "reimage_volume"


def reimage(context: RequestContext, volume_id: str, image_id: str, *, may_be_reserved: bool = False) -> None:
    """Replace a volume's data by an image's; a workflow copies them. A reserved volume is reserved again afterwards.

    Raises NotFound, Invalid for an image that is not active or too large and for a volume in use, ResourceLocked.
    """
    row = get_image(context, image_id)
    if row.status != "active":
        raise Invalid(f"Invalid image: Image {image_id} is not active.", field="os-reimage.image_id")
    image = image_spec(row)
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        needed = max(image.min_disk_gb, -(-image.size // GIB))
        if volume.size_gb < needed:
            raise Invalid(
                f"Invalid image: Image {image_id} needs {needed} GB, volume {volume.uuid} has {volume.size_gb} GB.",
                field="os-reimage.image_id",
            )
        before = (AVAILABLE, ERROR, RESERVED) if may_be_reserved else (AVAILABLE, ERROR)
        is_written = volume.attachments.filter(status=IN_USE).exists()
        if is_written or not operations.turn(volume.uuid, before, DOWNLOADING):
            raise Invalid(
                f"Invalid volume: Volume {volume.uuid} must be {', '.join(before)} to be reimaged, "
                f"but is {operations.counted_status(volume)}."
            )
        wanted = outbox.NewRun(
            flow=FLOW,
            action=FLOW,
            context=context,
            resources=[f"volume:{volume.uuid}"],
            instance_name=volume.name or str(volume.uuid),
            inputs={
                "volume_id": str(volume.uuid),
                "image": asdict(image),
                "image_metadata": volumes.image_metadata(image),
                "status": RESERVED if volume.status == RESERVED else AVAILABLE,
            },
        )
        outbox.open_run(API_ALIAS, wanted)
