"""Parses the block devices of POST /servers, in both formats, into DeviceRequests that the service checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.errors import Invalid
from conductor.services.volumes.types import DeviceRequest
from portal.api.validation import as_boolean

V1, V2 = "block_device_mapping", "block_device_mapping_v2"
ROOT_NAMES = ("vda", "/dev/vda", "sda", "/dev/sda")
BLANK, IMAGE, SNAPSHOT, VOLUME = "blank", "image", "snapshot", "volume"
LOCAL = "local"
SWAP = "swap"


def requests(server: Mapping[str, Any], image_ref: str) -> tuple[DeviceRequest, ...]:
    """Return the devices in order. Raises Invalid for an invalid device, and for a body that uses both formats."""
    if server.get(V1) and server.get(V2):
        raise Invalid(
            "Using different block_device_mapping syntaxes is not allowed in the same request.", field=f"server.{V1}"
        )
    old = [
        _old(number, device, image_ref) for number, device in enumerate(server.get(V1, ())) if "no_device" not in device
    ]
    new = [_new(number, device) for number, device in enumerate(server.get(V2, ())) if not device.get("no_device")]
    return (*old, *new)


def local_image(devices: Sequence[DeviceRequest], image_ref: str) -> str:
    """Return the image of the root disk: `image_ref`, or else the image of the boot device."""
    for device in devices:
        if device.is_root and device.source == IMAGE and device.destination == LOCAL:
            return image_ref or device.uuid
    return image_ref


def _new(number: int, device: Mapping[str, Any]) -> DeviceRequest:
    field = f"server.{V2}[{number}]"
    source = device.get("source_type", BLANK)
    uuid = str(device.get("uuid") or device.get("image_id") or "")
    if source == BLANK and uuid:
        raise Invalid("Block Device Mapping is Invalid: Invalid device UUID.", field=f"{field}.uuid")
    if source != BLANK and not uuid:
        raise Invalid("Block Device Mapping is Invalid: Missing device UUID.", field=f"{field}.uuid")
    is_swap = device.get("guest_format") == SWAP
    return DeviceRequest(
        source=source,
        destination=device.get("destination_type") or (VOLUME if source in (VOLUME, SNAPSHOT) else LOCAL),
        uuid=uuid,
        size_gb=_number(device.get("volume_size"), f"{field}.volume_size"),
        boot_index=_index(device.get("boot_index"), f"{field}.boot_index"),
        device_name=device.get("device_name") or "",
        delete_on_termination=as_boolean(device.get("delete_on_termination", False), f"{field}.delete_on_termination"),
        tag=device.get("tag"),
        is_swap=is_swap,
        volume_type=device.get("volume_type") or "",
    )


def _old(number: int, device: Mapping[str, Any], image_ref: str) -> DeviceRequest:
    """Parse a device of the old format: without an image the disk named vda is the root disk."""
    field = f"server.{V1}[{number}]"
    snapshot, volume = device.get("snapshot_id"), device.get("volume_id")
    if snapshot and volume:
        raise Invalid("Block Device Mapping is Invalid: a volume and a snapshot are named.", field=field)
    name = str(device.get("device_name") or "")
    return DeviceRequest(
        source=SNAPSHOT if snapshot else VOLUME if volume else BLANK,
        destination=VOLUME,
        uuid=str(snapshot or volume or ""),
        size_gb=_number(device.get("volume_size"), f"{field}.volume_size"),
        boot_index=0 if name in ROOT_NAMES and not image_ref else None,
        device_name=name,
        delete_on_termination=as_boolean(device.get("delete_on_termination", False), f"{field}.delete_on_termination"),
    )


def _number(value: Any, field: str) -> int | None:
    if value in (None, ""):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if not 1 <= number <= 2**31 - 1:
        raise Invalid(f"Invalid input for field/attribute {field}. It must be a number of GB above 0.", field=field)
    return number


def _index(value: Any, field: str) -> int | None:
    """Return the boot index; None for null and negative numbers, which mean that the device is not booted from."""
    if value in (None, "", "None"):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise Invalid(f"Invalid input for field/attribute {field}. It must be a number.", field=field) from None
