"""The block devices that a launch asks for, checked against what there is, and what becomes of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible as get_image
from conductor.services import device_names, volume_images, volumes
from conductor.services.values import DeviceWish
from conductor.services.volume_quotas import require_room
from conductor.volume import operations, snapshots, types
from conductor.volume.models import VolumeType
from conductor.volume.operations import Lending, VolumeWish
from conductor.volume.queries import Usage
from conductor.volume.queries import get_visible as get_volume
from conductor.volume.states import AVAILABLE, IMAGE, VOLUME

BLANK, SNAPSHOT = "blank", "snapshot"
LOCAL = "local"
GIB = 1 << 30
FIELD = "server.block_device_mapping_v2[{}]"
INVALID = "Block Device Mapping is Invalid: "
BOOT_ORDER = f"{INVALID}Boot sequence for the instance and image/block device mapping combination is not valid."


@dataclass(frozen=True, slots=True)
class Device:
    """A volume that a server is to have. One that `is_made` is made for it, of `source_kind` and `source_uuid`."""

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
    volume_type: VolumeType | None = None  # of one that is made


def check(
    context: RequestContext, wishes: Sequence[DeviceWish], image_ref: str, flavor: FlavorSpec
) -> tuple[Device, ...]:
    """The volumes of a launch, the root disk's first. Raises Invalid naming the device."""
    if not wishes:
        return ()
    _check_boot_order(wishes, image_ref)
    _check_local(wishes, flavor)
    wanted = [(number, wish) for number, wish in enumerate(wishes) if wish.destination != LOCAL]
    devices = [_device(context, wish, FIELD.format(number)) for number, wish in wanted]
    _refuse_twice(devices)
    return tuple(_named(devices))


def root_image(devices: Sequence[Device], flavor: FlavorSpec) -> ImageSpec | None:
    """What the root volume's image asks for; None where the root disk is no volume. Raises Invalid."""
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
    # No image of its own: its properties go on to count.
    return ImageSpec(name=image.name, min_ram_mb=image.min_ram_mb, properties=image.properties)


def take(context: RequestContext, devices: Sequence[Device], instance_uuid: UUID) -> list[dict[str, Any]]:
    """Keep the volumes of one server, make those that are to be made, and say what its build shall do.

    Inside the launch's write transaction. Raises QuotaExceeded, Conflict for a volume that is not free any more.
    """
    made = [device for device in devices if device.is_made]
    if made:
        _require_room(context, made)
    return [_take(context, device, instance_uuid) for device in devices]


def _require_room(context: RequestContext, made: Sequence[Device]) -> None:
    by_type: dict[str, list[int]] = defaultdict(list)
    for device in made:
        by_type[device.volume_type.name if device.volume_type else types.DEFAULT_NAME].append(device.size_gb)
    for name, sizes in sorted(by_type.items()):
        require_room(context.project_id, Usage(len(sizes), sum(sizes)), size_gb=max(sizes), type_name=name)


def _take(context: RequestContext, device: Device, instance_uuid: UUID) -> dict[str, Any]:
    lending = Lending(
        attachment_uuid=str(uuid4()),
        volume_uuid=device.volume_uuid or str(uuid4()),
        instance_uuid=str(instance_uuid),
        device=device.device_name,
    )
    if device.is_made:
        if device.source_kind == SNAPSHOT:
            snapshots.require_available(str(device.source_uuid))
        wanted = device.volume_type
        wish = VolumeWish(
            size_gb=device.size_gb,
            is_bootable=device.is_bootable,
            image_metadata=device.image_metadata,
            source_kind=device.source_kind,
            source_uuid=device.source_uuid,
            volume_type_id=wanted.pk if wanted else None,
            is_multiattach=bool(wanted and types.is_shareable(wanted)),
        )
        operations.promise(operations.insert(context, wish, uuid=UUID(lending.volume_uuid)), lending)
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


def _check_boot_order(wishes: Sequence[DeviceWish], image_ref: str) -> None:
    """Boot indexes go 0, 1, 2, … without a hole; an image is the root disk where no device is."""
    indexes = sorted(wish.boot_index for wish in wishes if wish.boot_index is not None and wish.boot_index >= 0)
    if image_ref and 0 not in indexes:
        indexes.insert(0, 0)
    if indexes != list(range(len(indexes))) or (wishes and not indexes):
        raise Invalid(BOOT_ORDER, field="server.block_device_mapping_v2")
    root = next((wish for wish in wishes if wish.is_root), None)
    if root is not None and root.source == IMAGE and image_ref not in ("", root.uuid):
        raise Invalid(BOOT_ORDER, field="server.imageRef")


def _check_local(wishes: Sequence[DeviceWish], flavor: FlavorSpec) -> None:
    """Disks of the host's own are the flavor's: who names some may have no more than it gives."""
    swap = 0
    for number, wish in enumerate(wishes):
        if wish.destination != LOCAL:
            continue
        if wish.source == VOLUME or wish.source == SNAPSHOT:
            raise Invalid(f"{INVALID}Mapping {wish.source} to local is not supported.", field=FIELD.format(number))
        if wish.source == IMAGE and not wish.is_root:
            raise Invalid(f"{INVALID}Mapping image to local is not supported.", field=FIELD.format(number))
        swap += wish.is_swap
        if wish.is_swap and (swap > 1 or (wish.size_gb or 0) * 1024 > flavor.swap_mb):
            raise Invalid("Swap drive requested is larger than instance type allows.", field=FIELD.format(number))
    sizes = [w.size_gb or 0 for w in wishes if w.destination == LOCAL and w.source == BLANK and not w.is_swap]
    if sum(sizes) > flavor.ephemeral_gb:
        raise Invalid("Ephemeral disks requested are larger than the instance type allows.", field="flavorRef")


def _device(context: RequestContext, wish: DeviceWish, field: str) -> Device:
    """Raises Invalid for a device that cannot be."""
    common: dict[str, Any] = {
        "boot_index": -1 if wish.boot_index is None else wish.boot_index,
        "device_name": wish.device_name,
        "delete_on_termination": wish.delete_on_termination,
        "tag": wish.tag,
    }
    return _KINDS[wish.source](context, wish, field, common)


def _of_volume(context: RequestContext, wish: DeviceWish, field: str, common: Mapping[str, Any]) -> Device:
    try:
        volume = get_volume(context, wish.uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get volume {wish.uuid}.", field=field) from None
    if volume.status != AVAILABLE and not (volume.is_multiattach and volume.status in operations.SHAREABLE):
        raise Invalid(
            f"Invalid volume: volume '{volume.uuid}' status must be 'available'. "
            f"Currently in '{volume.status}' status.",
            field=field,
        )
    if wish.is_root and not volume.is_bootable:
        raise Invalid(f"Block Device {volume.uuid} is not bootable.", field=field)
    image = volumes.image_of(volume) if wish.is_root else None
    return Device(size_gb=volume.size_gb, is_made=False, volume_uuid=str(volume.uuid), image=image, **common)


def _of_image(context: RequestContext, wish: DeviceWish, field: str, common: Mapping[str, Any]) -> Device:
    try:
        row = get_image(context, wish.uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get image {wish.uuid}.", field=field) from None
    if row.status != "active":
        raise Invalid(f"Image {wish.uuid} is not active.", field=field)
    if snapshot_id := volume_images.root_snapshot(row):
        return _of_snapshot(context, replace(wish, source=SNAPSHOT, uuid=snapshot_id), field, common)
    if not wish.size_gb:
        raise Invalid(f"{INVALID}Images with destination_type 'volume' need to have a non-zero size.", field=field)
    image = image_spec(row)
    needed = max(image.min_disk_gb, -(-image.size // GIB))
    if wish.size_gb < needed:
        raise Invalid(f"{INVALID}Image {wish.uuid} needs {needed} GB, not {wish.size_gb} GB.", field=field)
    return Device(
        size_gb=wish.size_gb,
        is_made=True,
        source_kind=IMAGE,
        source_uuid=image.image_id,
        image=image,
        is_bootable=True,
        image_metadata=volumes.image_metadata(image),
        volume_type=_type_of(context, wish, field),
        **common,
    )


def _of_snapshot(context: RequestContext, wish: DeviceWish, field: str, common: Mapping[str, Any]) -> Device:
    try:
        row = snapshots.get_visible(context, wish.uuid)
    except NotFound:
        raise Invalid(f"{INVALID}failed to get snapshot {wish.uuid}.", field=field) from None
    if row.status != AVAILABLE:
        raise Invalid(f"Snapshot {wish.uuid} is {row.status}, not available.", field=field)
    size_gb = wish.size_gb or row.size_gb
    if size_gb < row.size_gb:
        raise Invalid(f"{INVALID}Snapshot {wish.uuid} needs {row.size_gb} GB, not {size_gb} GB.", field=field)
    if wish.is_root and not row.volume.is_bootable:
        raise Invalid(f"Block Device {row.uuid} is not bootable.", field=field)
    wanted = _type_of(context, wish, field) or row.volume.volume_type
    return Device(
        size_gb=size_gb,
        is_made=True,
        source_kind=SNAPSHOT,
        source_uuid=str(row.uuid),
        image=volumes.image_of(row.volume) if wish.is_root else None,
        is_bootable=row.volume.is_bootable,
        image_metadata=row.volume.image_metadata,
        volume_type=wanted,
        **common,
    )


def _type_of(context: RequestContext, wish: DeviceWish, field: str) -> VolumeType | None:
    """The type that was asked for, if one was. Raises Invalid."""
    if not wish.volume_type:
        return None
    try:
        wanted = types.named(context, wish.volume_type)
    except NotFound:
        raise Invalid(f"Volume type {wish.volume_type[:60]} could not be found.", field=field) from None
    volumes.check_type(wanted, field=field)
    return wanted


def _of_blank(context: RequestContext, wish: DeviceWish, field: str, common: Mapping[str, Any]) -> Device:
    if not wish.size_gb:
        raise Invalid(
            f"{INVALID}Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size.", field=field
        )
    return Device(size_gb=wish.size_gb, is_made=True, volume_type=_type_of(context, wish, field), **common)


_KINDS = {VOLUME: _of_volume, IMAGE: _of_image, SNAPSHOT: _of_snapshot, BLANK: _of_blank}


def _refuse_twice(devices: Sequence[Device]) -> None:
    existing = [device.volume_uuid for device in devices if device.volume_uuid]
    twice = next((uuid for uuid in existing if existing.count(uuid) > 1), None)
    if twice:
        raise Invalid(f"{INVALID}volume {twice} is named twice.", field="server.block_device_mapping_v2")


def _named(devices: Sequence[Device]) -> list[Device]:
    """Each with a device name of its own: the one that was asked for, or the next free one. Raises Invalid."""
    if len(devices) >= device_names.MOST_DEVICES:
        raise Invalid(f"{INVALID}a server has at most {device_names.MOST_DEVICES - 1} volumes.")
    named: list[Device] = []
    # Names that were asked for first, so that none of ours takes one of them.
    for device in sorted(devices, key=lambda device: (device.boot_index != 0, not device.device_name)):
        taken = [other.device_name for other in named]
        is_root = device.boot_index == 0
        name = device_names.ROOT if is_root else device_names.free(taken, device.device_name)
        named.append(replace(device, device_name=name))
    return named
