"""Block devices of a launch: validation, reservation and creation of their volumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from string import ascii_lowercase
from typing import Any
from uuid import UUID, uuid4

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible as get_image
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import image_mappings, volumes
from conductor.services.volumes.types import DeviceRequest
from conductor.volume import operations, snapshots, types
from conductor.volume.models import VolumeType
from conductor.volume.operations import NewAttachment, VolumeCreate
from conductor.volume.queries import VolumeUsage
from conductor.volume.queries import get_visible as get_volume
from conductor.volume.states import AVAILABLE, IMAGE, VOLUME

BLANK, SNAPSHOT = "blank", "snapshot"
LOCAL = "local"
GIB = 1 << 30
FIELD = "server.block_device_mapping_v2[{}]"
INVALID = "Block Device Mapping is Invalid: "
BOOT_ORDER = f"{INVALID}Boot sequence for the instance and image/block device mapping combination is not valid."


@dataclass(frozen=True, slots=True)
class RequestedDevice:
    """A volume that a server is to have. One that `is_made` is created for it from `source_kind` and `source_uuid`."""

    size_gb: int
    boot_index: int
    device_name: str
    delete_on_termination: bool
    tag: str | None
    is_made: bool
    volume_uuid: str = ""
    source_kind: str = ""
    source_uuid: str | None = None
    image: ImageSpec | None = None
    is_bootable: bool = False
    image_metadata: Mapping[str, str] = field(default_factory=dict)
    volume_type: VolumeType | None = None  # None unless the volume is created


def check(
    context: RequestContext, requests: Sequence[DeviceRequest], image_ref: str, flavor: FlavorSpec
) -> tuple[RequestedDevice, ...]:
    """Validate the volumes of a launch; returns the root disk's first. Raises Invalid naming the device."""
    if not requests:
        return ()
    _check_boot_order(requests, image_ref)
    _check_local(requests, flavor)
    wanted = [(number, requested) for number, requested in enumerate(requests) if requested.destination != LOCAL]
    devices = [_device(context, requested, FIELD.format(number)) for number, requested in wanted]
    _refuse_twice(devices)
    return tuple(_named(devices))


def root_image(devices: Sequence[RequestedDevice], flavor: FlavorSpec) -> ImageSpec | None:
    """Return the root volume's image. None where the root disk is not a volume. Raises Invalid."""
    root = next((device for device in devices if device.boot_index == 0), None)
    if root is None:
        return None
    image = root.image or ImageSpec()
    if flavor.memory_mb < image.min_ram_mb:
        raise Invalid(
            f"Flavor's memory is too small for requested image: {flavor.name} has {flavor.memory_mb} MB, "
            f"the image needs {image.min_ram_mb} MB.",
            field="flavorRef",
        )
    # the volume has no image of its own, but its image properties still count
    return ImageSpec(name=image.name, min_ram_mb=image.min_ram_mb, properties=image.properties)


def take(context: RequestContext, devices: Sequence[RequestedDevice], instance_uuid: UUID) -> list[dict[str, Any]]:
    """Reserve the volumes of one server, create new ones, and return the inputs of its build.

    Call it inside the launch's write transaction. Raises QuotaExceeded, Conflict for a volume that is not free any
    more.
    """
    made = [device for device in devices if device.is_made]
    if made:
        _require_room(context, made)
    return [_take(context, device, instance_uuid) for device in devices]


def _require_room(context: RequestContext, made: Sequence[RequestedDevice]) -> None:
    by_type: dict[str, list[int]] = defaultdict(list)
    for device in made:
        by_type[device.volume_type.name if device.volume_type else types.DEFAULT_NAME].append(device.size_gb)
    for name, sizes in sorted(by_type.items()):
        require_room(context.project_id, VolumeUsage(len(sizes), sum(sizes)), size_gb=max(sizes), type_name=name)


def _take(context: RequestContext, device: RequestedDevice, instance_uuid: UUID) -> dict[str, Any]:
    lending = NewAttachment(
        attachment_uuid=str(uuid4()),
        volume_uuid=device.volume_uuid or str(uuid4()),
        instance_uuid=str(instance_uuid),
        device=device.device_name,
    )
    if device.is_made:
        if device.source_kind == SNAPSHOT:
            snapshots.require_available(str(device.source_uuid))
        wanted = device.volume_type
        requested = VolumeCreate(
            size_gb=device.size_gb,
            is_bootable=device.is_bootable,
            image_metadata=device.image_metadata,
            source_kind=device.source_kind,
            source_uuid=device.source_uuid,
            volume_type_id=wanted.pk if wanted else None,
            is_multiattach=bool(wanted and types.is_shareable(wanted)),
        )
        operations.promise(operations.insert(context, requested, uuid=UUID(lending.volume_uuid)), lending)
    else:
        operations.reserve(lending)
    return {
        "attachment_id": lending.attachment_uuid,
        "volume_id": lending.volume_uuid,
        "device_name": device.device_name,
        "boot_index": device.boot_index,
        "tag": device.tag,
        "delete_on_termination": device.delete_on_termination,
        "is_made": device.is_made,
        "image": asdict(device.image) if device.source_kind == IMAGE and device.image else None,
    }


def _check_boot_order(requests: Sequence[DeviceRequest], image_ref: str) -> None:
    """Check that boot indexes are 0, 1, 2, … without a gap; an image is the root disk where no device is."""
    indexes = sorted(
        requested.boot_index for requested in requests if requested.boot_index is not None and requested.boot_index >= 0
    )
    if image_ref and 0 not in indexes:
        indexes.insert(0, 0)
    if indexes != list(range(len(indexes))) or (requests and not indexes):
        raise Invalid(BOOT_ORDER, field="server.block_device_mapping_v2")
    root = next((requested for requested in requests if requested.is_root), None)
    if root is not None and root.source == IMAGE and image_ref not in ("", root.uuid):
        raise Invalid(BOOT_ORDER, field="server.imageRef")


def _check_local(requests: Sequence[DeviceRequest], flavor: FlavorSpec) -> None:
    """Check local disks, which are part of the flavor: requested ones must not exceed it."""
    swap = 0
    for number, requested in enumerate(requests):
        if requested.destination != LOCAL:
            continue
        if requested.source == VOLUME or requested.source == SNAPSHOT:
            raise Invalid(f"{INVALID}Mapping {requested.source} to local is not supported.", field=FIELD.format(number))
        if requested.source == IMAGE and not requested.is_root:
            raise Invalid(f"{INVALID}Mapping image to local is not supported.", field=FIELD.format(number))
        swap += requested.is_swap
        if requested.is_swap and (swap > 1 or (requested.size_gb or 0) * 1024 > flavor.swap_mb):
            raise Invalid("Swap drive requested is larger than instance type allows.", field=FIELD.format(number))
    sizes = [w.size_gb or 0 for w in requests if w.destination == LOCAL and w.source == BLANK and not w.is_swap]
    if sum(sizes) > flavor.ephemeral_gb:
        raise Invalid("Ephemeral disks requested are larger than the instance type allows.", field="flavorRef")


def _device(context: RequestContext, requested: DeviceRequest, field: str) -> RequestedDevice:
    """Return a device. Raises Invalid for an impossible one."""
    common: dict[str, Any] = {
        "boot_index": -1 if requested.boot_index is None else requested.boot_index,
        "device_name": requested.device_name,
        "delete_on_termination": requested.delete_on_termination,
        "tag": requested.tag,
    }
    return _KINDS[requested.source](context, requested, field, common)


def _of_volume(
    context: RequestContext, requested: DeviceRequest, field: str, common: Mapping[str, Any]
) -> RequestedDevice:
    try:
        volume = get_volume(context, requested.uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get volume {requested.uuid}.", field=field) from None
    if not operations.is_free(volume):
        raise Invalid(
            f"Invalid volume: volume '{volume.uuid}' status must be 'available'. "
            f"Currently in '{operations.counted_status(volume)}' status.",
            field=field,
        )
    if requested.is_root and not volume.is_bootable:
        raise Invalid(f"Block Device {volume.uuid} is not bootable.", field=field)
    image = volumes.image_of(volume.image_metadata) if requested.is_root else None
    return RequestedDevice(size_gb=volume.size_gb, is_made=False, volume_uuid=str(volume.uuid), image=image, **common)


def _of_image(
    context: RequestContext, requested: DeviceRequest, field: str, common: Mapping[str, Any]
) -> RequestedDevice:
    try:
        row = get_image(context, requested.uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get image {requested.uuid}.", field=field) from None
    if row.status != "active":
        raise Invalid(f"Image {requested.uuid} is not active.", field=field)
    if snapshot_id := image_mappings.root_snapshot(row):
        listed = replace(requested, source=SNAPSHOT, uuid=snapshot_id, image_uuid=requested.uuid)
        return _of_snapshot(context, listed, field, common)
    if not requested.size_gb:
        raise Invalid(f"{INVALID}Images with destination_type 'volume' need to have a non-zero size.", field=field)
    image = image_spec(row)
    needed = max(image.min_disk_gb, -(-image.size // GIB))
    if requested.size_gb < needed:
        raise Invalid(f"{INVALID}Image {requested.uuid} needs {needed} GB, not {requested.size_gb} GB.", field=field)
    return RequestedDevice(
        size_gb=requested.size_gb,
        is_made=True,
        source_kind=IMAGE,
        source_uuid=image.image_id,
        image=image,
        is_bootable=True,
        image_metadata=volumes.image_metadata(image),
        volume_type=_type_of(context, requested, field),
        **common,
    )


def _of_snapshot(
    context: RequestContext, requested: DeviceRequest, field: str, common: Mapping[str, Any]
) -> RequestedDevice:
    try:
        row = snapshots.get_source(context, requested.uuid, image_id=requested.image_uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get snapshot {requested.uuid}.", field=field) from None
    if row.status != AVAILABLE:
        raise Invalid(f"Snapshot {requested.uuid} is {row.status}, not available.", field=field)
    size_gb = requested.size_gb or row.size_gb
    if size_gb < row.size_gb:
        raise Invalid(f"{INVALID}Snapshot {requested.uuid} needs {row.size_gb} GB, not {size_gb} GB.", field=field)
    if requested.is_root and not row.is_bootable:
        raise Invalid(f"Block Device {row.uuid} is not bootable.", field=field)
    wanted = _type_of(context, requested, field) or row.volume_type
    return RequestedDevice(
        size_gb=size_gb,
        is_made=True,
        source_kind=SNAPSHOT,
        source_uuid=str(row.uuid),
        image=volumes.image_of(row.image_metadata) if requested.is_root else None,
        is_bootable=row.is_bootable,
        image_metadata=row.image_metadata,
        volume_type=wanted,
        **common,
    )


def _type_of(context: RequestContext, requested: DeviceRequest, field: str) -> VolumeType | None:
    """Return the requested volume type, if any. Raises Invalid."""
    if not requested.volume_type:
        return None
    try:
        wanted = types.named(context, requested.volume_type)
    except NotFound:
        raise Invalid(f"Volume type {requested.volume_type[:60]} could not be found.", field=field) from None
    volumes.check_type(wanted, field=field)
    return wanted


def _of_blank(
    context: RequestContext, requested: DeviceRequest, field: str, common: Mapping[str, Any]
) -> RequestedDevice:
    if not requested.size_gb:
        raise Invalid(
            f"{INVALID}Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size.", field=field
        )
    return RequestedDevice(
        size_gb=requested.size_gb, is_made=True, volume_type=_type_of(context, requested, field), **common
    )


_KINDS = {VOLUME: _of_volume, IMAGE: _of_image, SNAPSHOT: _of_snapshot, BLANK: _of_blank}


def _refuse_twice(devices: Sequence[RequestedDevice]) -> None:
    existing = [device.volume_uuid for device in devices if device.volume_uuid]
    twice = next((uuid for uuid in existing if existing.count(uuid) > 1), None)
    if twice:
        raise Invalid(f"{INVALID}volume {twice} is named twice.", field="server.block_device_mapping_v2")


def _named(devices: Sequence[RequestedDevice]) -> list[RequestedDevice]:
    """Give each device a name of its own: the requested one, or the next free one. Raises Invalid."""
    if len(devices) >= MOST_DEVICES:
        raise Invalid(f"{INVALID}a server has at most {MOST_DEVICES - 1} volumes.")
    named: list[RequestedDevice] = []
    # Requested names first, so that no generated name takes one of them.
    for device in sorted(devices, key=lambda device: (device.boot_index != 0, not device.device_name)):
        taken = [other.device_name for other in named]
        is_root = device.boot_index == 0
        name = ROOT if is_root else free(taken, device.device_name)
        named.append(replace(device, device_name=name))
    return named


ROOT = "/dev/vda"
MOST_DEVICES = 26  # disks that any driver can name, including the root disk


def free(taken: Sequence[str], wanted: str = "") -> str:
    """Return the requested name, or the next free one after the root disk's. Raises Conflict for one in use."""
    used = {"a", *(_letters(name) for name in taken)}
    if wanted:
        if _letters(wanted) in used:
            raise Conflict(f"The supplied device path ({wanted}) is in use.")
        return wanted if wanted.startswith("/dev/") else f"/dev/{wanted}"
    return next(f"/dev/vd{letters}" for letters in _names() if letters not in used)


def _names() -> Iterator[str]:
    """Yield a, b, …, z, aa, ab, …"""
    for number in count():
        prefix = "" if number < len(ascii_lowercase) else ascii_lowercase[number // len(ascii_lowercase) - 1]
        yield prefix + ascii_lowercase[number % len(ascii_lowercase)]


def _letters(name: str) -> str:
    """Return the letters of a disk's name without its bus: `/dev/vdb`, `/dev/sdb1` and `b` are equal."""
    last = name.rpartition("/")[2].rstrip("0123456789")
    return last[2:] if len(last) > 2 and last[1] == "d" else last.removeprefix("xvd")
