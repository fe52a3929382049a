"""Images of servers that boot from a volume. They have no data, and list snapshots from which volumes are created."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core import json_text
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict
from conductor.core.server_actions import ACTIONS
from conductor.db.transactions import write_tx
from conductor.image import snapshots as images
from conductor.image.models import Image
from conductor.image.queries import deleted_of
from conductor.services.quotas import image_quotas
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.servers import actions
from conductor.services.servers.actions import ActionRequest
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes import volumes
from conductor.services.volumes.image_mappings import MAPPING
from conductor.volume import image_snapshots, snapshots
from conductor.volume.models import Volume
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.snapshots import SnapshotCreate

Reserved = Sequence[tuple[BlockDevice, UUID]]  # each volume of a server, and its future snapshot


def make(context: RequestContext, instance: Instance, values: Mapping[str, Any]) -> tuple[str, str]:
    """Create a snapshot of each volume, and an image that lists them. Return its id and the uuid of the workflow.

    The image is `queued` and its snapshots are `creating` until the workflow has copied all data. Raises Conflict,
    Invalid for a volume that cannot be copied now, QuotaExceeded.
    """
    alias = str(instance._state.db)
    actions.guard(context, alias, ACTIONS["createImage"], instance)  # before anything is created
    with write_tx():
        image_quotas.require_count(instance.project_id)
    devices = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid).order_by("boot_index", "pk")
    image_id, reserved = str(uuid4()), [(device, uuid4()) for device in devices]
    _reserve(context, image_id, instance.project_id, values, reserved)
    inputs = {
        "image_id": image_id,
        "snapshots": [{"snapshot_id": str(uuid), "volume_id": str(device.volume_uuid)} for device, uuid in reserved],
    }
    try:
        requested = ActionRequest(inputs=inputs, resources=[f"image:{image_id}"], prepare=_same_devices(reserved))
        run_uuid = actions.begin(context, str(instance.uuid), "createImage", requested)
    except BaseException:
        discard(image_id, [uuid for _, uuid in reserved], instance.project_id)
        raise
    return image_id, run_uuid


def discard(image_id: str, snapshot_uuids: Sequence[UUID], project_id: str) -> None:
    """Remove an image that no workflow fills, and the snapshots reserved for it. Idempotent."""
    with write_tx():
        if images.discard(image_id):
            image_snapshots.release([image_id])
            snapshots.begin_discarding(snapshot_uuids, project_id)
    for uuid in snapshot_uuids:
        snapshots.settle(uuid)


def release(*image_uuids: UUID) -> None:
    """Release the data of deleted snapshots that only these deleted images used. Idempotent."""
    with write_tx():
        released = image_snapshots.release(image_uuids)
    for uuid in released:
        snapshots.settle(uuid)


def settle_released() -> int:
    """Release data of images whose deletion was interrupted; returns the number of images."""
    gone = deleted_of(image_snapshots.images())
    release(*gone)
    return len(gone)


def reserved_for(image: Image) -> list[UUID]:
    """Return the snapshots that a queued image of volumes lists."""
    listed = image.properties.get(MAPPING)
    if not listed:
        return []
    try:
        return [UUID(device["snapshot_id"]) for device in json_text.loads(listed)]
    except (AttributeError, KeyError, TypeError, ValueError):  # the property was set by the image's owner
        return []


def _reserve(
    context: RequestContext, image_id: str, project_id: str, values: Mapping[str, Any], reserved: Reserved
) -> None:
    """Create the queued image and its snapshots, within the quota of each type: all or nothing."""
    requested = SnapshotCreate(name=f"snapshot for {values['name']}"[:255])
    with write_tx():
        listed = []
        for device, uuid in reserved:
            volume = get_visible(context, str(device.volume_uuid))
            volume_snapshots.require_ready(volume, may_be_in_use=True)
            type_name = volumes.type_name_of(volume)
            require_room(volume.project_id, VolumeUsage(0, volume.size_gb, 1), type_name=type_name)
            snapshots.insert(context, volume, replace(requested, uuid=uuid))
            listed.append(_listed(device, str(uuid), volume))
        properties = {**values["properties"], MAPPING: json.dumps(listed), "bdm_v2": "True"}
        described = {**values, "properties": {**properties, "root_device_name": "/dev/vda"}, "disk_format": "raw"}
        images.reserve(image_id, project_id, described)


def _same_devices(reserved: Reserved) -> Callable[[str, Instance, UUID], None]:
    """Return a check that the volumes are the reserved ones, as another action may have changed them before the
    locks.
    """
    expected = {device.volume_uuid for device, _ in reserved}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        found = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid)
        if set(found.values_list("volume_uuid", flat=True)) != expected:
            raise Conflict(f"The volumes of instance {instance.uuid} have just changed; try again.")

    return prepare


def _listed(device: BlockDevice, snapshot_id: str, volume: Volume) -> dict[str, Any]:
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": snapshot_id,
        "volume_size": volume.size_gb,
        "boot_index": device.boot_index if device.boot_index >= 0 else None,
        "device_name": device.device_name,
        "delete_on_termination": device.delete_on_termination,
        "tag": device.tag,
    }
