"""Images of servers whose root disk is a volume: no data of their own, but a list of snapshots to make volumes of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core import json_text
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.server_actions import ACTIONS
from conductor.image import snapshots as images
from conductor.image.models import Image
from conductor.image.queries import get_visible as get_image
from conductor.services import image_quotas, server_actions, volume_snapshots, volumes
from conductor.services.server_actions import Asked
from conductor.services.values import DeviceWish
from conductor.services.volume_quotas import require_room
from conductor.transactions import write_tx
from conductor.volume import snapshots
from conductor.volume.models import Volume
from conductor.volume.queries import Usage, get_visible
from conductor.volume.snapshots import SnapshotWish

# The property of an image that lists its devices, as clients of other clouds know it.
MAPPING = "block_device_mapping"
Reserved = Sequence[tuple[BlockDevice, UUID]]  # each volume of a server, and the snapshot that it is about to get


def make(context: RequestContext, instance: Instance, values: Mapping[str, Any]) -> tuple[str, str]:
    """Have a snapshot of each volume, and an image that lists them; its id and the uuid of the workflow.

    The image waits, `queued`, and its snapshots are `creating` until the workflow has copied all data. Raises Conflict,
    Invalid for a volume that cannot be copied now, QuotaExceeded.
    """
    alias = str(instance._state.db)
    server_actions.guard(context, alias, ACTIONS["createImage"], instance)  # before anything is made
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
        asked = Asked(inputs=inputs, resources=[f"image:{image_id}"], prepare=_same_devices(reserved))
        run_uuid = server_actions.begin(context, str(instance.uuid), "createImage", asked)
    except BaseException:
        discard(image_id, [uuid for _, uuid in reserved], instance.project_id)
        raise
    return image_id, run_uuid


def root_snapshot(image: Image) -> str:
    """The snapshot that an image lists for the root disk; "" for an image with data of its own. Raises Invalid."""
    listed = image.properties.get(MAPPING)
    wishes = _parsed(str(image.uuid), listed) if listed else ()
    return next((wish.uuid for wish in wishes if wish.source == "snapshot" and wish.is_root), "")


def discard(image_id: str, snapshot_uuids: Sequence[UUID], project_id: str) -> None:
    """Remove an image that no workflow fills, and the snapshots that were reserved for it. Repeatable."""
    with write_tx():
        if images.discard(image_id):
            snapshots.begin_discarding(snapshot_uuids, project_id)
    for uuid in snapshot_uuids:
        snapshots.settle(uuid)


def reserved_for(image: Image) -> list[UUID]:
    """The snapshots that a queued image of volumes lists."""
    listed = image.properties.get(MAPPING)
    if not listed:
        return []
    try:
        return [UUID(device["snapshot_id"]) for device in json_text.loads(listed)]
    except (AttributeError, KeyError, TypeError, ValueError):  # an image that its owner described
        return []


def devices_of(context: RequestContext, image_ref: str) -> tuple[DeviceWish, ...]:
    """The devices that an image lists; none for one with data of its own. Raises Invalid for a list of another kind."""
    try:
        image = get_image(context, image_ref) if image_ref else None
    except NotFound:  # the check of the image itself refuses it
        return ()
    listed = image.properties.get(MAPPING) if image else None
    if not listed:
        return ()
    if image is not None and image.status != "active":
        raise Invalid(f"Image {image_ref} is not active.", field="server.imageRef")
    return _parsed(image_ref, listed)


def _reserve(
    context: RequestContext, image_id: str, project_id: str, values: Mapping[str, Any], reserved: Reserved
) -> None:
    """The queued image and its snapshots, within the quota of each type: all of it or nothing."""
    wish = SnapshotWish(name=f"snapshot for {values['name']}"[:255])
    with write_tx():
        listed = []
        for device, uuid in reserved:
            volume = get_visible(context, str(device.volume_uuid))
            volume_snapshots.require_ready(volume, may_be_in_use=True)
            type_name = volumes.type_name_of(volume)
            require_room(volume.project_id, Usage(0, volume.size_gb, 1), type_name=type_name)
            snapshots.insert(context, volume, replace(wish, uuid=uuid))
            listed.append(_listed(device, str(uuid), volume))
        properties = {**values["properties"], MAPPING: json.dumps(listed), "bdm_v2": "True"}
        described = {**values, "properties": {**properties, "root_device_name": "/dev/vda"}, "disk_format": "raw"}
        images.reserve(image_id, project_id, described)


def _same_devices(reserved: Reserved) -> Callable[[str, Instance, UUID], None]:
    """Between the reservation and the locks another action may have given the server a volume, or taken one."""
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


def _parsed(image_ref: str, listed: str) -> tuple[DeviceWish, ...]:
    """Raises Invalid for a list of another kind."""
    try:
        return tuple(_wish(device) for device in json_text.loads(listed))
    except (AttributeError, KeyError, TypeError, ValueError):
        message = f"Image {image_ref} lists devices in property {MAPPING} in a form that cannot be read."
        raise Invalid(message, field="server.imageRef") from None


def _wish(device: Mapping[str, Any]) -> DeviceWish:
    source = device["source_type"]
    return DeviceWish(
        source=source,
        destination=device["destination_type"],
        uuid=str(device.get(f"{source}_id") or ""),
        size_gb=device.get("volume_size"),
        boot_index=device.get("boot_index"),
        delete_on_termination=bool(device.get("delete_on_termination")),
        tag=device.get("tag"),
    )
