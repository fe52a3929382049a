"""Volumes as people make, change and delete them: limits are counted, and what a workflow works on is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.request_spec import ImageSpec
from conductor.journal import foreign_locks
from conductor.services.volume_quotas import require_room
from conductor.transactions import write_tx
from conductor.volume import backups, capabilities, messages, operations, snapshots, types
from conductor.volume.models import Volume, VolumeType
from conductor.volume.operations import VolumeWish
from conductor.volume.queries import Usage, VolumeQuery, get_visible, list_visible
from conductor.volume.states import AVAILABLE, CREATING, DELETING, IN_USE, MAINTENANCE, TELLABLE, VOLUME

__all__ = ["VolumeQuery", "VolumeWish", "get_visible", "list_visible", "require_room"]

MOST_METADATA = 128
UNDER_LOCK = "volume:{}"


def create(context: RequestContext, wish: VolumeWish) -> Volume:
    """Have a new volume. Raises QuotaExceeded."""
    check_metadata(wish.metadata)
    with write_tx():
        require_room(context.project_id, Usage(1, wish.size_gb), size_gb=wish.size_gb)
        volume = operations.insert(context, wish)
    operations.settle(volume.uuid)  # what is told is how it was asked for; the next look sees it available
    return volume


def delete(context: RequestContext, volume_id: str, *, takes_snapshots: bool = False, is_forced: bool = False) -> None:
    """Delete a volume and its data. Raises NotFound, Invalid for one in use or with snapshots, ResourceLocked.

    `takes_snapshots` deletes these first; `is_forced` asks for no status, and deletes all that no server has.
    """
    _settle_snapshots(get_visible(context, volume_id))
    with write_tx():
        volume = free_to_change(context, volume_id)
        doomed = list(volume.snapshots.all()) if takes_snapshots else []
        for snapshot in doomed:
            foreign_locks.require_free(f"snapshot:{snapshot.uuid}")
            snapshots.begin_deleting(snapshot)
        _refuse_source(volume)
        operations.begin_deleting(volume, is_forced=is_forced, takes_snapshots=takes_snapshots)
    for snapshot in doomed:
        snapshots.settle(snapshot.uuid)
    operations.settle(volume.uuid)


def _settle_snapshots(volume: Volume) -> None:
    """Finish what was to go while it was being taken: for who asked it is gone, and no reason to keep the volume."""
    for uuid in volume.snapshots.filter(status=DELETING, status_is_told=False).values_list("uuid", flat=True):
        if foreign_locks.holder_of(f"snapshot:{uuid}") is None:
            snapshots.settle(uuid)


def extend(context: RequestContext, volume_id: str, size_gb: int, *, may_be_in_use: bool = False) -> Volume:
    """Make a volume larger. Raises NotFound, Invalid for one under work, QuotaExceeded, ResourceLocked."""
    with write_tx():
        volume = free_to_change(context, volume_id)
        more = Usage(0, max(0, size_gb - volume.size_gb))
        require_room(volume.project_id, more, size_gb=size_gb, type_name=type_name_of(volume))
        operations.begin_extending(volume, size_gb, may_be_in_use=may_be_in_use)
    operations.settle(volume.uuid)
    return volume


def update(context: RequestContext, volume_id: str, values: Mapping[str, Any]) -> Volume:
    """Change the name, the description, metadata, or whether it is bootable or readonly. Raises NotFound, Invalid."""
    check_metadata(values.get("metadata", {}))
    with write_tx():
        volume = get_visible(context, volume_id)
        _refuse_in_maintenance(volume)
        operations.describe(volume, **values)
    return get_visible(context, volume_id)


def set_readonly(context: RequestContext, volume_id: str, *, is_readonly: bool) -> None:
    """Say whether servers may only read it, once they attach it. Raises NotFound, Invalid while one has it."""
    with write_tx():
        volume = free_to_change(context, volume_id)
        if volume.status != AVAILABLE:
            raise Invalid(
                f"Invalid volume: Volume {volume.uuid} status must be available to update readonly flag, "
                f"but current status is: {volume.status}."
            )
        operations.describe(volume, is_readonly=is_readonly)


def retype(context: RequestContext, volume_id: str, type_ref: str) -> None:
    """Give a volume another type; its data stay where they are, as there is one storage.

    Raises NotFound, Invalid for a type that cannot be or is the same, QuotaExceeded, ResourceLocked.
    """
    try:
        wanted = types.named(context, type_ref)
    except NotFound as error:
        raise Invalid(error.message, field="os-retype.new_type") from None
    check_type(wanted, field="os-retype.new_type")
    with write_tx():
        volume = free_to_change(context, volume_id)
        if volume.status not in (AVAILABLE, IN_USE):
            raise Invalid(f"Invalid volume: status must be available or in-use to retype, but is {volume.status}.")
        if type_name_of(volume) == wanted.name:
            raise Invalid("Invalid volume_type passed: the volume has this type already.", field="os-retype.new_type")
        is_shared = types.is_shareable(wanted)
        if volume.status == IN_USE and is_shared != volume.is_multiattach:
            raise Invalid("A volume in use cannot be retyped between types for one server and for several.")
        if unmet := capabilities.unmet(wanted.extra_specs):
            raise Invalid(f"No storage offers what volume type {wanted.name} asks for: {unmet}.")
        more = Usage(1, volume.size_gb)
        require_room(volume.project_id, more, type_name=wanted.name, is_there=True)
        operations.describe(volume, volume_type_id=wanted.pk, is_multiattach=is_shared)


def reset_status(context: RequestContext, volume_id: str, status: str) -> None:
    """An operator says what a volume's status is: nothing follows from it by itself.

    Raises NotFound, Invalid, ResourceLocked while a workflow has it.
    """
    if status not in TELLABLE:
        raise Invalid(f"Invalid status {status[:60]}: it must be one of {', '.join(TELLABLE)}.", field="status")
    with write_tx():
        operations.describe(free_to_change(context, volume_id), status=status, status_is_told=True)


def set_image_metadata(context: RequestContext, volume_id: str, given: Mapping[str, str]) -> dict[str, str]:
    """Add or replace what a volume remembers of its image; all of it. Raises NotFound."""
    check_metadata(given)
    with write_tx():
        volume = get_visible(context, volume_id)
        changed = {**volume.image_metadata, **given}
        operations.describe(volume, image_metadata=changed)
    return changed


def unset_image_metadata(context: RequestContext, volume_id: str, key: str) -> None:
    """Raises NotFound for a key that is not there."""
    with write_tx():
        volume = get_visible(context, volume_id)
        if key not in volume.image_metadata:
            raise NotFound(f"Metadata with key {key[:60]} of volume {volume_id} does not exist.")
        left = {name: value for name, value in volume.image_metadata.items() if name != key}
        operations.describe(volume, image_metadata=left)


def type_name_of(volume: Volume) -> str:
    return volume.volume_type.name if volume.volume_type else types.DEFAULT_NAME


def check_type(wanted: VolumeType, *, field: str) -> None:
    """Raises Invalid for a type whose volumes would be encrypted."""
    if wanted.encryption:
        raise Invalid(
            f"Volume type {wanted.name} asks for encryption, which the storage of this cloud does not offer: "
            "choose another type.",
            field=field,
        )


def image_metadata(image: ImageSpec) -> dict[str, str]:
    """What a volume remembers of the image that its data come from."""
    return {
        **{name: str(value) for name, value in image.properties.items()},
        "image_id": image.image_id,
        "image_name": image.name,
        "checksum": image.checksum,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "min_disk": str(image.min_disk_gb),
        "min_ram": str(image.min_ram_mb),
        "size": str(image.size),
    }


OF_IMAGES = ("image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size")


def image_of(volume: Volume) -> ImageSpec:
    """The image that a volume remembers, as scheduler and driver see it; an empty one for none."""
    known = volume.image_metadata
    return ImageSpec(
        name=known.get("image_name", ""),
        min_ram_mb=int(known.get("min_ram", 0)),
        properties={name: value for name, value in known.items() if name not in OF_IMAGES},
    )


def settle_all() -> int:
    """Finish volumes and snapshots that a dead process left half created, grown or deleted; returns how many."""
    messages.drop_old()
    finished = snapshots.settle_all(lambda uuid: foreign_locks.holder_of(f"snapshot:{uuid}") is None)
    return finished + backups.settle_all() + operations.settle_all()


def free_to_change(context: RequestContext, volume_id: str) -> Volume:
    """The volume, held until the transaction ends. Raises NotFound, ResourceLocked naming who works on it."""
    volume = get_visible(context, volume_id)
    Volume.objects.select_for_update().filter(pk=volume.pk).first()
    foreign_locks.require_free(UNDER_LOCK.format(volume.uuid))
    return get_visible(context, volume_id)


def _refuse_source(volume: Volume) -> None:
    """Raises Invalid while another volume gets its data from this one."""
    if Volume.objects.filter(source_kind=VOLUME, source_uuid=volume.uuid, status=CREATING).exists():
        raise Invalid(f"Invalid volume: data of volume {volume.uuid} are being copied into another one.")


def _refuse_in_maintenance(volume: Volume) -> None:
    if volume.status == MAINTENANCE:
        raise Invalid(f"Invalid volume: Volume {volume.uuid} is in maintenance: it cannot be changed.")


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raises Invalid for too much."""
    if len(metadata) > MOST_METADATA:
        raise Invalid(f"A volume can have up to {MOST_METADATA} metadata items, not {len(metadata)}.", field="metadata")
