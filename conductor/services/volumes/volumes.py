"""Volumes: create, change, extend, delete and transfer them, within quotas and unless a workflow has locked them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.request_spec import ImageSpec
from conductor.db.transactions import write_tx
from conductor.journal import locks
from conductor.services.quotas.volume_quotas import require_room
from conductor.volume import backups, capabilities, messages, operations, snapshots, transfers, types
from conductor.volume.models import Transfer, Volume, VolumeAttachment, VolumeType
from conductor.volume.operations import VolumeCreate
from conductor.volume.queries import VolumeQuery, VolumeUsage, get_visible, list_visible
from conductor.volume.states import AVAILABLE, CREATING, DELETING, DETACHING, IN_USE, MAINTENANCE, TELLABLE, VOLUME
from conductor.volume.types import TypeQuery

__all__ = ["VolumeCreate", "VolumeQuery", "get_visible", "list_visible", "require_room"]

MOST_METADATA = 128
UNDER_LOCK = "volume:{}"


def create(context: RequestContext, requested: VolumeCreate) -> Volume:
    """Create a volume. Raises QuotaExceeded."""
    check_metadata(requested.metadata)
    with write_tx():
        require_room(context.project_id, VolumeUsage(1, requested.size_gb), size_gb=requested.size_gb)
        volume = operations.insert(context, requested)
    operations.settle(volume.uuid)  # the response shows the initial status; the next read shows it available
    return volume


def delete(context: RequestContext, volume_id: str, *, takes_snapshots: bool = False, is_forced: bool = False) -> None:
    """Delete a volume and its data. Raises NotFound, Invalid for one in use or with snapshots, ResourceLocked.

    `takes_snapshots` deletes the snapshots first. `is_forced` ignores the status, unless a server has the volume.
    """
    _settle_snapshots(get_visible(context, volume_id))
    with write_tx():
        volume = free_to_change(context, volume_id)
        doomed = list(volume.snapshots.all()) if takes_snapshots else []
        for snapshot in doomed:
            locks.require_free(f"snapshot:{snapshot.uuid}")
            snapshots.begin_deleting(snapshot)
        _refuse_source(volume)
        operations.begin_deleting(volume, is_forced=is_forced, takes_snapshots=takes_snapshots)
    for snapshot in doomed:
        snapshots.settle(snapshot.uuid)
    operations.settle(volume.uuid)


def _settle_snapshots(volume: Volume) -> None:
    """Finish snapshots that were deleted while they were taken, as they must not block the volume's delete."""
    for uuid in volume.snapshots.filter(status=DELETING, is_status_forced=False).values_list("uuid", flat=True):
        if locks.holder_of(f"snapshot:{uuid}") is None:
            snapshots.settle(uuid)


def extend(context: RequestContext, volume_id: str, size_gb: int, *, may_be_in_use: bool = False) -> Volume:
    """Extend a volume. Raises NotFound, Invalid for one under work, QuotaExceeded, ResourceLocked."""
    with write_tx():
        volume = free_to_change(context, volume_id)
        more = VolumeUsage(0, max(0, size_gb - volume.size_gb))
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


def changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields of a Volume or Snapshot."""
    found: dict[str, Any] = {}
    for name in ("display_name", "name"):
        if name in given:
            found["name"] = (given[name] or "").strip()
    for name in ("display_description", "description"):
        if name in given:
            found["description"] = given[name]
    return found | ({"metadata": given["metadata"]} if "metadata" in given else {})


def set_readonly(context: RequestContext, volume_id: str, *, is_readonly: bool) -> None:
    """Set whether servers may only read it, once they attach it. Raises NotFound, Invalid while one has it attached."""
    with write_tx():
        volume = free_to_change(context, volume_id)
        if (status := operations.counted_status(volume)) != AVAILABLE:
            raise Invalid(
                f"Invalid volume: Volume {volume.uuid} status must be available to update readonly flag, "
                f"but current status is: {status}."
            )
        operations.describe(volume, is_readonly=is_readonly)


def retype(context: RequestContext, volume_id: str, type_ref: str) -> None:
    """Change a volume's type; its data stay in place, as there is one storage.

    Raises NotFound, Invalid for an impossible or unchanged type, QuotaExceeded, ResourceLocked.
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
        if is_shared != volume.is_multiattach and (volume.status == IN_USE or volume.attachments.exists()):
            raise Invalid("A volume in use cannot be retyped between types for one server and for several.")
        if unmet := capabilities.unmet(wanted.extra_specs):
            raise Invalid(f"No storage offers what volume type {wanted.name} asks for: {unmet}.")
        more = VolumeUsage(1, volume.size_gb)
        require_room(volume.project_id, more, type_name=wanted.name, is_there=True)
        operations.describe(volume, volume_type_id=wanted.pk, is_multiattach=is_shared)


def reset_status(context: RequestContext, volume_id: str, status: str) -> None:
    """Set a volume's status, for operators; has no other effect.

    Raises NotFound, Invalid, ResourceLocked while a workflow has locked it.
    """
    if status not in TELLABLE:
        raise Invalid(f"Invalid status {status[:60]}: it must be one of {', '.join(TELLABLE)}.", field="status")
    with write_tx():
        operations.describe(free_to_change(context, volume_id), status=status, is_status_forced=True)


def set_image_metadata(context: RequestContext, volume_id: str, given: Mapping[str, str]) -> dict[str, str]:
    """Add to a volume's image metadata, or replace them; returns all. Raises NotFound, Invalid."""
    check_metadata(given)
    for name in NUMBERS:
        if name in given and _number(given[name]) is None:
            raise Invalid(
                f"Image metadata {name} must be a whole number from 0 to {MOST_OF_A_NUMBER}.", field=f"metadata.{name}"
            )
    with write_tx():
        volume = get_visible(context, volume_id)
        changed = {**volume.image_metadata, **given}
        operations.describe(volume, image_metadata=changed)
    return changed


def unset_image_metadata(context: RequestContext, volume_id: str, key: str) -> None:
    """Remove an item of a volume's image metadata. Raises NotFound for an unknown key."""
    with write_tx():
        volume = get_visible(context, volume_id)
        if key not in volume.image_metadata:
            raise NotFound(f"Metadata with key {key[:60]} of volume {volume_id} does not exist.")
        left = {name: value for name, value in volume.image_metadata.items() if name != key}
        operations.describe(volume, image_metadata=left)


def type_name_of(volume: Volume) -> str:
    return volume.volume_type.name if volume.volume_type else types.DEFAULT_NAME


def type_names(context: RequestContext, limit: int) -> list[str]:
    """Return the names of public types, and of those that the caller was granted, the newest first."""
    return [row.name for row in types.list_visible(context, TypeQuery(limit=limit))]


def attachments_of(volume: Volume) -> list[VolumeAttachment]:
    """Return the attachments of servers that have the volume, or are about to release it."""
    return [one for one in volume.attachments.all() if one.status in (IN_USE, DETACHING)]


def metadata_of(volume: Volume) -> dict[str, str]:
    """Return the metadata, with the read-only flag and the attachment mode among them."""
    attached = attachments_of(volume)
    return {
        **volume.metadata,
        **({"readonly": str(volume.is_readonly)} if volume.is_readonly is not None else {}),
        **({"attached_mode": attached[0].mode} if attached and attached[0].connector is not None else {}),
    }


def check_type(wanted: VolumeType, *, field: str) -> None:
    """Raise Invalid for a type whose volumes would be encrypted."""
    if wanted.encryption:
        raise Invalid(
            f"Volume type {wanted.name} asks for encryption, which the storage of this cloud does not offer: "
            "choose another type.",
            field=field,
        )


def image_metadata(image: ImageSpec) -> dict[str, str]:
    """Return the image metadata of a volume created from an image."""
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


# Numbers that launches and uploads of a volume use. Its owner may set them, and an imported volume may have any text
# there.
NUMBERS = ("min_disk", "min_ram")
MOST_OF_A_NUMBER = 2**31 - 1
OF_IMAGES = ("image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size")


def image_of(known: Mapping[str, str]) -> ImageSpec:
    """Return the image that a volume's image metadata describe, for scheduler and driver; an empty one for none."""
    return ImageSpec(
        name=known.get("image_name", ""),
        min_ram_mb=number_of(known, "min_ram"),
        properties={name: value for name, value in known.items() if name not in OF_IMAGES},
    )


def number_of(known: Mapping[str, str], name: str) -> int:
    """Return one of NUMBERS from a volume's image metadata. 0 where the text is not a number."""
    return _number(known.get(name, "")) or 0


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_OF_A_NUMBER))
    return int(text) if is_number and int(text) <= MOST_OF_A_NUMBER else None


def settle_all() -> int:
    """Finish volumes and snapshots that a dead process left half created, extended or deleted; returns how many."""
    messages.drop_old()
    finished = snapshots.settle_all(lambda uuid: locks.holder_of(f"snapshot:{uuid}") is None)
    return finished + backups.settle_all() + operations.settle_all()


def free_to_change(context: RequestContext, volume_id: str) -> Volume:
    """Return the volume, locked until the transaction ends. Raises NotFound, ResourceLocked naming the workflow."""
    volume = get_visible(context, volume_id)
    Volume.objects.select_for_update().filter(pk=volume.pk).first()
    locks.require_free(UNDER_LOCK.format(volume.uuid))
    return get_visible(context, volume_id)


def _refuse_source(volume: Volume) -> None:
    """Raise Invalid while data of this volume are copied to another one."""
    if Volume.objects.filter(source_kind=VOLUME, source_uuid=volume.uuid, status=CREATING).exists():
        raise Invalid(f"Invalid volume: data of volume {volume.uuid} are being copied into another one.")


def _refuse_in_maintenance(volume: Volume) -> None:
    if volume.status == MAINTENANCE:
        raise Invalid(f"Invalid volume: Volume {volume.uuid} is in maintenance: it cannot be changed.")


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise Invalid for too many items."""
    if len(metadata) > MOST_METADATA:
        raise Invalid(f"A volume can have up to {MOST_METADATA} metadata items, not {len(metadata)}.", field="metadata")


def create_transfer(
    context: RequestContext, volume_id: str, name: str | None, *, with_snapshots: bool = True
) -> tuple[Transfer, str]:
    """Create a transfer of a volume; returns it and its key.

    Raises NotFound, Invalid for a volume that is not free, ResourceLocked.
    """
    with write_tx():
        volume = free_to_change(context, volume_id)
        if with_snapshots and any(row.status != "available" for row in volume.snapshots.all()):
            raise Invalid(f"Invalid volume: all snapshots of volume {volume.uuid} must be available to go with it.")
        return transfers.create(context, volume, name, with_snapshots=with_snapshots)


def accept_transfer(context: RequestContext, transfer_id: str, key: str) -> Transfer:
    """Accept the transfer of a volume, all or nothing. Raises NotFound, Invalid for a wrong key, QuotaExceeded."""
    with write_tx():
        row = transfers.find(transfer_id, key)
        volume = row.volume
        kept = list(volume.snapshots.all()) if row.with_snapshots else []
        if not row.with_snapshots and volume.snapshots.exists():
            raise Invalid(f"Invalid volume: snapshots of volume {volume.uuid} would stay behind: delete them first.")
        size_gb = volume.size_gb + sum(snapshot.size_gb for snapshot in kept)
        more = VolumeUsage(1, size_gb, len(kept))
        require_room(context.project_id, more, size_gb=volume.size_gb, type_name=type_name_of(volume))
        transfers.take(context, row)
    return row
