"""Operations on volumes: create, update, extend, delete, and attach to instances. Every change of status is a CAS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.compute_driver import VolumeConnection
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.volume import store, unmanaged_files
from conductor.volume.models import Volume, VolumeAttachment
from conductor.volume.states import (
    ATTACHING,
    AVAILABLE,
    CHANGES,
    CREATING,
    DELETABLE,
    DELETING,
    DETACHING,
    EXTENDING,
    IN_USE,
    LENT_STATUSES,
    PASSING,
    RESERVED,
    UNMANAGING,
)

SHAREABLE = (AVAILABLE, RESERVED, ATTACHING, IN_USE, DETACHING)  # states in which one more guest may attach it
DETACHED = DELETABLE  # statuses of a volume without attachments; an operator can set them on an attached one


@dataclass(frozen=True, slots=True)
class VolumeCreate:
    """A volume to create."""

    size_gb: int
    name: str = ""
    description: str | None = None
    availability_zone: str = "nova"
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_bootable: bool = False
    image_metadata: Mapping[str, str] = field(default_factory=dict)
    source_kind: str = ""
    source_uuid: str | None = None
    volume_type_id: int | None = None  # of the row; None is the default type
    is_multiattach: bool = False
    group_uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewAttachment:
    """An attachment of a volume to an instance, under the uuid of the cell's block device."""

    attachment_uuid: str
    volume_uuid: str
    instance_uuid: str
    device: str
    host: str = ""


# -- create, extend, delete: first the status, in the caller's transaction; then `settle` carries it out


def insert(context: RequestContext, requested: VolumeCreate, **values: Any) -> Volume:
    """Insert a volume in creation; inside the caller's write transaction, which counted the quota."""
    now = timezone.now()
    return Volume.objects.create(
        **asdict(requested),
        **values,
        project_id=context.project_id,
        user_id=context.user_id,
        status=CREATING,
        created_at=now,
        updated_at=now,
    )


def begin_extending(volume: Volume, size_gb: int, *, may_be_in_use: bool = False) -> None:
    """Begin to extend a volume. Raises Invalid for a size that is not larger, or a busy volume."""
    if size_gb <= volume.size_gb:
        raise Invalid(
            f"New size for extend must be greater than current size. (current: {volume.size_gb}, extended: {size_gb}).",
            field="os-extend.new_size",
        )
    before = (AVAILABLE, IN_USE) if may_be_in_use else (AVAILABLE,)
    if not _change(_one(volume.uuid), before, EXTENDING, size_gb=size_gb):
        raise Invalid(
            f"Volume {volume.uuid} status must be {' or '.join(before)} to extend, but is {_status(volume.uuid)}."
        )


def begin_deleting(volume: Volume, *, is_forced: bool = False, takes_snapshots: bool = False) -> None:
    """Begin to delete a volume.

    Raises Invalid for one in use, busy, in a group or with snapshots; `is_forced` ignores the status, not attachments.
    """
    if not takes_snapshots and volume.snapshots.exists():
        raise Invalid(f"Invalid volume: Volume {volume.uuid} still has dependent snapshots: delete them first.")
    if is_forced and not volume.attachments.exists():
        _one(volume.uuid).update(status=DELETING, is_status_forced=False, updated_at=timezone.now())
    elif volume.group_uuid is not None or not _change(_one(volume.uuid), DELETABLE, DELETING):
        raise Invalid(
            f"Invalid volume: Volume status must be available or error and must not be in a group or attached, "
            f"but is {_status(volume.uuid)}."
        )


def settle(volume_uuid: UUID | str) -> None:
    """Carry out the status: create the file, extend it, or delete file and row. Repeatable."""
    volume = Volume.objects.filter(uuid=volume_uuid, status__in=PASSING, is_status_forced=False).first()
    if volume is None or (volume.status == CREATING and _has_a_workflow(volume)):
        return
    if volume.status in (DELETING, UNMANAGING):
        if volume.status == DELETING:
            store.remove(volume.uuid)
        else:
            unmanaged_files.let_go(unmanaged_files.VOLUME, volume.uuid)
        with write_tx():
            _one(volume.uuid).filter(status=volume.status).delete()
        return
    store.ensure(volume.uuid, volume.size_gb)
    with write_tx():
        is_used = VolumeAttachment.objects.filter(volume=volume).exists()
        _change(_one(volume.uuid), (EXTENDING,) if is_used else (CREATING, EXTENDING), IN_USE if is_used else AVAILABLE)


def settle_all() -> int:
    """Finish interrupted operations. Return how many."""
    passing = Volume.objects.filter(status__in=PASSING, is_status_forced=False)
    uuids = list(passing.values_list("uuid", flat=True))
    for uuid in uuids:
        settle(uuid)
    return len(uuids)


def _has_a_workflow(volume: Volume) -> bool:
    """Whether a workflow handles the volume: it still gets data, or is for a server that is being built."""
    return bool(volume.source_kind) or VolumeAttachment.objects.filter(volume=volume).exists()


def describe(volume: Volume, **values: Any) -> None:
    """Update name, description, metadata or bootability; inside a write transaction."""
    _one(volume.uuid).update(**values, updated_at=timezone.now())


def counted_status(volume: Volume) -> str:
    """Return the volume's status. If it is one of DETACHED although the volume is attached, the text says both.

    The status alone decides nothing, as an operator can set `available` while a guest writes to the volume.
    """
    is_contradicted = volume.status in DETACHED and volume.attachments.exists()
    return f"{volume.status} and attached" if is_contradicted else volume.status


def is_free(volume: Volume) -> bool:
    """Return whether one more guest can attach the volume."""
    return (volume.is_multiattach and volume.status in SHAREABLE) or counted_status(volume) == AVAILABLE


def turn(volume_uuid: UUID | str, before: Iterable[str], after: str, **values: Any) -> bool:
    """Move the volume from one of the states `before` to `after`, if it was in one; inside a write transaction."""
    return _change(_one(volume_uuid), before, after, **values)


# -- attachments; each function runs inside the caller's fenced write transaction, and is idempotent


def reserve(lending: NewAttachment) -> None:
    """Reserve a volume for an instance. Raises Conflict when it is not available, NotFound when it does not exist."""
    if _lent(lending.attachment_uuid).exists():
        return
    volume = Volume.objects.filter(uuid=lending.volume_uuid).select_for_update().first()
    if volume is None:
        raise NotFound(f"Volume {lending.volume_uuid} is gone.")
    is_shared = volume.is_multiattach and volume.status in SHAREABLE
    if not is_shared and not _change(_one(volume.uuid), (AVAILABLE,), ATTACHING):
        raise Conflict(f"Volume {volume.uuid} is {counted_status(volume)}, not available.")
    _lend(volume, lending)


def promise(volume: Volume, lending: NewAttachment) -> None:
    """Reserve a volume in creation for an instance; inside the write transaction that inserted it."""
    _lend(volume, lending)


def is_filled(attachment_uuid: str) -> None:
    """Record that the data of a reserved new volume exist."""
    _change(_of(attachment_uuid), (CREATING,), ATTACHING)


def complete(attachment_uuid: str) -> None:
    """Record that the guest has the volume."""
    if _turn_lent(attachment_uuid, (RESERVED, ATTACHING, DETACHING), IN_USE):
        _lent(attachment_uuid).filter(attached_at=None).update(attached_at=timezone.now())


def begin_detaching(attachment_uuid: str) -> None:
    """Begin to detach. Raises Conflict when the volume is not in use."""
    if not _turn_lent(attachment_uuid, (IN_USE,), DETACHING) and not _lent(attachment_uuid).filter(status=DETACHING):
        raise Conflict("The volume is not in use.")


def release(attachment_uuid: str) -> bool:
    """Record that the guest does not have the volume (any more). Return whether it was attached until now."""
    volume = _of(attachment_uuid).first()
    if volume is None:
        return False
    _lent(attachment_uuid).delete()
    if not volume.is_multiattach:
        _change(_one(volume.uuid), LENT_STATUSES, AVAILABLE)
    elif volume.status in LENT_STATUSES:
        follow(volume)
    return True


def replace(old_uuid: str, new_uuid: str, device: str) -> None:
    """Record a swap: the guest has the second attachment's volume in place of the first one's, which is released."""
    complete(new_uuid)
    _lent(new_uuid).update(device=device)
    release(old_uuid)


def let_go(attachment_uuid: str, *, is_deleted: bool) -> None:
    """Release the attachment of a deleted guest. With `is_deleted` begin to delete the volume; then call `settle` for
    it.

    A volume that other guests have as well stays.
    """
    volume = _of(attachment_uuid).first() if is_deleted else None
    if volume is None or volume.attachments.exclude(uuid=attachment_uuid).exists() or volume.snapshots.exists():
        release(attachment_uuid)
        return
    _change(_one(volume.uuid), (CREATING, ATTACHING, DETACHING, IN_USE), DELETING, group_uuid=None)
    _lent(attachment_uuid).delete()


def keep_detaching(attachment_uuid: str) -> None:
    """Record that the guest is to be deleted, while that is not confirmed yet."""
    _turn_lent(attachment_uuid, (IN_USE, ATTACHING), DETACHING)


def follow(volume: Volume) -> None:
    """Set the volume's status to the highest one of its attachments. Call it inside a write transaction."""
    held = set(VolumeAttachment.objects.filter(volume=volume).values_list("status", flat=True))
    status = next((status for status in (IN_USE, DETACHING, ATTACHING, RESERVED) if status in held), AVAILABLE)
    _one(volume.uuid).update(status=status, is_status_forced=False, updated_at=timezone.now())


def move(instance_uuid: str, host: str) -> None:
    """Record that the instance's volumes are used on `host` now; "" for no host."""
    VolumeAttachment.objects.filter(instance_uuid=instance_uuid).update(host=host)


def connection_of(volume: Volume, device: str, *, boot_index: int = -1) -> dict[str, Any]:
    """Return how a host opens the volume: core.VolumeConnection as JSON."""
    return asdict(
        VolumeConnection(
            volume_uuid=str(volume.uuid),
            path=str(store.path_of(volume.uuid)),
            size_gb=volume.size_gb,
            device_name=device,
            boot_index=boot_index,
            serial=str(volume.uuid),
            is_shared=volume.is_multiattach,
        )
    )


def _lend(volume: Volume, lending: NewAttachment) -> None:
    VolumeAttachment.objects.create(
        uuid=lending.attachment_uuid,
        volume=volume,
        instance_uuid=lending.instance_uuid,
        device=lending.device,
        host=lending.host,
        status=ATTACHING,
    )


def _turn_lent(attachment_uuid: str, before: Iterable[str], after: str) -> bool:
    """Move the attachment from one of the states `before` to `after`, and the volume too, unless others have it."""
    volume = _of(attachment_uuid).first()
    if volume is None:
        return False
    if volume.is_multiattach:
        is_turned = bool(_lent(attachment_uuid).filter(status__in=list(before)).update(status=after))
        follow(volume)
        return is_turned
    is_turned = _change(_of(attachment_uuid), before, after)
    if is_turned:
        _lent(attachment_uuid).update(status=after)
    return is_turned


def _one(volume_uuid: UUID | str) -> QuerySet[Volume]:
    return Volume.objects.filter(uuid=volume_uuid)


def _of(attachment_uuid: str) -> QuerySet[Volume]:
    return Volume.objects.filter(attachments__uuid=attachment_uuid)


def _lent(attachment_uuid: str) -> QuerySet[VolumeAttachment]:
    return VolumeAttachment.objects.filter(uuid=attachment_uuid)


def _status(volume_uuid: UUID | str) -> str:
    volume = _one(volume_uuid).first()
    return counted_status(volume) if volume else "deleted"


def _change(rows: QuerySet[Volume], before: Iterable[str], after: str, **values: Any) -> bool:
    """Move the volume from one of the states `before` to `after`, in one UPDATE. Return whether it was in one.

    An attached volume is in none of DETACHED, whatever its status says.
    """
    allowed = [status for status in before if (status, after) in CHANGES]
    if any(status in DETACHED for status in allowed):
        rows = rows.exclude(status__in=DETACHED, attachments__isnull=False)
    values |= {"status": after, "is_status_forced": False, "updated_at": timezone.now()}
    return bool(rows.filter(status__in=allowed).update(**values))
