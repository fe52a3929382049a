"""Volumes in an image's property `block_device_mapping`, as other OpenStack clouds write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.core import json_text
from conductor.core.errors import Invalid
from conductor.image.models import Image
from conductor.services.volumes.types import DeviceRequest

# The property of an image that lists its devices, as clients of other clouds know it.
MAPPING = "block_device_mapping"


def root_snapshot(image: Image) -> str:
    """Return the snapshot that an image lists for the root disk; "" for an image with its own data. Raises Invalid."""
    listed = image.properties.get(MAPPING)
    requests = _parsed(str(image.uuid), listed) if listed else ()
    return next((requested.uuid for requested in requests if requested.source == "snapshot" and requested.is_root), "")


def devices_of(image: Image | None, image_ref: str) -> tuple[DeviceRequest, ...]:
    """Return the devices that an image lists; none for one with its own data. Raises Invalid for an unreadable list."""
    listed = image.properties.get(MAPPING) if image else None
    if not listed:
        return ()
    if image is not None and image.status != "active":
        raise Invalid(f"Image {image_ref} is not active.", field="server.imageRef")
    return tuple(replace(requested, image_uuid=image_ref) for requested in _parsed(image_ref, listed))


def _parsed(image_ref: str, listed: str) -> tuple[DeviceRequest, ...]:
    """Parse the list. Raises Invalid for an unreadable one."""
    try:
        return tuple(_requested(device) for device in json_text.loads(listed))
    except (AttributeError, KeyError, TypeError, ValueError):
        message = f"Image {image_ref} lists devices in property {MAPPING} in a form that cannot be read."
        raise Invalid(message, field="server.imageRef") from None


def _requested(device: Mapping[str, Any]) -> DeviceRequest:
    source = device["source_type"]
    return DeviceRequest(
        source=source,
        destination=device["destination_type"],
        uuid=str(device.get(f"{source}_id") or ""),
        size_gb=device.get("volume_size"),
        boot_index=device.get("boot_index"),
        delete_on_termination=bool(device.get("delete_on_termination")),
        tag=device.get("tag"),
    )
