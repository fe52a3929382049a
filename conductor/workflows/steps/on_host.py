"""What every command to a host is made of: its address, and the guest as its driver needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import connections

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.compute_driver import GuestFile, GuestSpec, NetworkPort, VolumeConnection
from conductor.core.hardware.wire import grant_to_json
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image import boot_images
from conductor.placement.hardware import held_by
from conductor.sql.rows import Rows
from conductor.workflows.flow import Work

ASKS_FOR_HARDWARE = ("hw:", "hw_", "pci_passthrough:", "resources")
DEVICES = Rows(BlockDevice, "instance_uuid")


def addressed(work: Work, host: str) -> dict[str, Any]:
    """The fields that every command to a host carries."""
    return {
        "step_key": work.step_key,
        "fencing_token": work.token,
        "run_uuid": str(work.run.uuid),
        "cell": work.alias,
        "host": host,
        "instance_uuid": work.instance_uuid,
    }


def guest_of(work: Work, instance: Instance, **changes: Any) -> dict[str, Any]:
    """The instance as core.GuestSpec in JSON; `changes` replace fields of it, such as `flavor` or `image`."""
    guest = GuestSpec(
        instance_uuid=str(instance.uuid),
        name=instance.name,
        hostname=instance.hostname,
        project_id=instance.project_id,
        flavor=FlavorSpec(**instance.flavor),
        image=ImageSpec(**instance.image),
        ports=tuple(NetworkPort.from_json(port) for port in instance.addresses),
        user_data=instance.user_data or "",
        public_key=instance.public_key,
        metadata=instance.metadata,
        volumes=_volumes(work, instance),
        hardware=hardware_of(instance),
        files=tuple(GuestFile(**file) for file in instance.injected_files or ()),
    )
    guest = replace(guest, **changes)
    kernel, ramdisk = boot_images.boot_parts(instance.project_id, guest.image.properties)
    return replace(guest, kernel=kernel, ramdisk=ramdisk).to_json()


def fresh_guest_of(work: Work, instance: Instance, **changes: Any) -> dict[str, Any]:
    """As `guest_of`, for a host that fetches the image now: raises BuildAborted when the project may not read it."""
    image = changes.get("image") or ImageSpec(**instance.image)
    boot_images.require_readable(work.context, instance.project_id, image.image_id)
    return guest_of(work, instance, **changes)


def rescued_volumes(work: Work, instance: Instance) -> tuple[VolumeConnection, ...]:
    """The instance's volumes where it boots from another disk: none of them is the first."""
    return tuple(
        replace(volume, boot_index=-1, device_name="") if volume.boot_index == 0 else volume
        for volume in _volumes(work, instance)
    )


def _volumes(work: Work, instance: Instance) -> tuple[VolumeConnection, ...]:
    devices = DEVICES.all(connections[work.alias], instance.uuid)
    ordered = sorted(devices, key=lambda device: (device.boot_index, device.pk))
    return tuple(VolumeConnection(**device.connection) for device in ordered)


def hardware_of(instance: Instance) -> dict[str, Any]:
    """The cells, processors and devices that the guest was given; nothing for one that asks for none."""
    keys = (*instance.flavor.get("extra_specs", {}), *instance.image.get("properties", {}))
    if not any(key.startswith(ASKS_FOR_HARDWARE) for key in keys):
        return {}
    return next((grant_to_json(grant) for grant in held_by(instance.uuid).values()), {})
