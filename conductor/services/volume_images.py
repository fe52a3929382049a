"""Images of servers whose root disk is a volume: no data of their own, but a list of snapshots to make volumes of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core import json_text
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.server_actions import ACTIONS
from conductor.image import snapshots as images
from conductor.image.queries import get_visible as get_image
from conductor.services import instant_runs, server_actions, volume_snapshots
from conductor.services.instant_runs import Deed
from conductor.services.values import DeviceWish
from conductor.transactions import write_tx
from conductor.volume.snapshots import SnapshotWish

DEED = Deed(action="createImage", event="api_snapshot_instance", title="Take snapshots of the volumes")
# The property of an image that lists its devices, as clients of other clouds know it.
MAPPING = "block_device_mapping"


def make(context: RequestContext, instance: Instance, values: Mapping[str, Any]) -> tuple[str, str]:
    """Have a snapshot of each volume, and an image that names them; its id and the uuid of the record.

    The image is there at once; its snapshots are as soon as their workflows have copied the data. Raises Conflict,
    Invalid for a volume that cannot be copied now, QuotaExceeded.
    """
    alias = str(instance._state.db)
    server_actions.guard(context, alias, ACTIONS["createImage"], instance)
    devices = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid).order_by("boot_index", "pk")
    wish = SnapshotWish(name=f"snapshot for {values['name']}"[:255])
    listed = [_listed(context, device, wish) for device in devices]
    image_id = str(uuid4())
    properties = {**values["properties"], MAPPING: json.dumps(listed), "bdm_v2": "True", "root_device_name": "/dev/vda"}
    described = {**values, "properties": properties, "status": "active", "size": 0, "disk_format": "raw"}
    images.reserve(image_id, instance.project_id, described)
    with write_tx(alias):
        run = instant_runs.record(alias, context, instance, DEED)
    return image_id, str(run.uuid)


def devices_of(context: RequestContext, image_ref: str) -> tuple[DeviceWish, ...]:
    """The devices that an image lists; none for one with data of its own. Raises Invalid for a list of another kind."""
    try:
        listed = get_image(context, image_ref).properties.get(MAPPING) if image_ref else None
    except NotFound:  # whoever looks for its data says so
        return ()
    if not listed:
        return ()
    try:
        return tuple(_wish(device) for device in json_text.loads(listed))
    except (AttributeError, KeyError, TypeError, ValueError):
        message = f"Image {image_ref} lists devices in property {MAPPING} in a form that cannot be read."
        raise Invalid(message, field="server.imageRef") from None


def _listed(context: RequestContext, device: BlockDevice, wish: SnapshotWish) -> dict[str, Any]:
    taken = volume_snapshots.create(context, str(device.volume_uuid), wish, may_be_in_use=True)
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": str(taken.uuid),
        "volume_size": taken.size_gb,
        "boot_index": device.boot_index if device.boot_index >= 0 else None,
        "device_name": device.device_name,
        "delete_on_termination": device.delete_on_termination,
        "tag": device.tag,
    }


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
