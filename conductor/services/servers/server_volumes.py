"""Volumes of servers: attach, detach, swap and list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.cells.hosts import is_unresponsive
from conductor.cells.lookup import cell_aliases
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import database_now, write_tx
from conductor.rpc import outbox
from conductor.services.servers import actions, block_devices
from conductor.services.servers.actions import ActionRequest
from conductor.services.servers.queries import missing
from conductor.volume import operations
from conductor.volume.models import Volume
from conductor.volume.queries import get_visible
from conductor.volume.states import AVAILABLE, IN_USE


@dataclass(frozen=True)
class AttachmentCreate:
    """A volume to attach; `device` "" chooses a name. `may_share` permits multi-attach volumes."""

    volume_id: str
    device: str = ""
    tag: str | None = None
    delete_on_termination: bool = False
    may_share: bool = True


@dataclass(frozen=True)
class Attachment:
    """A volume of a server, attached or about to be."""

    attachment_id: str
    volume_id: str
    instance_uuid: str
    device: str
    tag: str | None = None
    delete_on_termination: bool = False
    run_uuid: str = ""


def list_attachments(context: RequestContext, instance_uuid: str) -> list[Attachment]:
    """Return a server's volumes, oldest first. Raises NotFound, Conflict for a server that is still being scheduled."""
    alias = _alive(context, instance_uuid)
    rows = BlockDevice.objects.using(alias).filter(instance_uuid=instance_uuid).order_by("pk")
    return [_view(row) for row in rows]


def get(context: RequestContext, instance_uuid: str, volume_id: str) -> Attachment:
    """Return one volume of a server. Raises NotFound."""
    for attachment in list_attachments(context, instance_uuid):
        if attachment.volume_id == volume_id.lower():
            return attachment
    raise NotFound(f"volume_id not found: {volume_id[:60]}")


def attach(context: RequestContext, instance_uuid: str, requested: AttachmentCreate) -> Attachment:
    """Attach a volume; its device name is chosen here.

    Raises NotFound, Invalid for a volume that is not free, Conflict for a locked server or volume or a device name in
    use, NotSupported.
    """
    actions.cell_of(context, instance_uuid)  # an unknown server is reported before an unknown volume
    volume = _wanted(context, requested)
    attachment_id = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        there = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid)
        _refuse(there, volume, instance)
        device = block_devices.free(list(there.values_list("device_name", flat=True)), requested.device)
        BlockDevice.objects.using(alias).create(
            uuid=attachment_id,
            instance_uuid=instance.uuid,
            volume_uuid=volume.uuid,
            device_name=device,
            tag=requested.tag,
            delete_on_termination=requested.delete_on_termination,
            connection=operations.connection_of(volume, device),
            created_at=database_now(),
        )

    inputs = {"volume_id": str(volume.uuid), "attachment_id": str(attachment_id)}
    held = actions.volume_locks([volume.uuid], instance_uuid)
    query = ActionRequest(inputs=inputs, resources=held, prepare=prepare)
    run_uuid = actions.begin(context, instance_uuid, "attach_volume", query)
    alias = actions.cell_of(context, instance_uuid)
    device = BlockDevice.objects.using(alias).filter(uuid=attachment_id).first()
    return Attachment(
        attachment_id=str(attachment_id),
        volume_id=str(volume.uuid),
        instance_uuid=instance_uuid,
        device=device.device_name if device else requested.device,  # deleted when the workflow has failed already
        tag=requested.tag,
        delete_on_termination=requested.delete_on_termination,
        run_uuid=run_uuid,
    )


def detach(context: RequestContext, instance_uuid: str, volume_id: str) -> str:
    """Detach a volume; returns the uuid of the workflow.

    Raises NotFound, Forbidden for the root disk, Conflict for a locked server or volume or a host that is down.
    """
    attachment = get(context, instance_uuid, volume_id)
    inputs: dict[str, Any] = {"volume_id": attachment.volume_id, "attachment_id": attachment.attachment_id}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        device = BlockDevice.objects.using(alias).filter(uuid=attachment.attachment_id).first()
        if device is None:
            raise NotFound(f"volume_id not found: {volume_id[:60]}")
        if device.boot_index == 0:
            raise Forbidden("Cannot detach a root device volume")
        if instance.host and is_unresponsive(alias, instance.host):
            raise Conflict(f"Cannot 'detach_volume' instance {instance.uuid}: its host does not answer.")

    held = actions.volume_locks([UUID(attachment.volume_id)], attachment.instance_uuid)
    requested = ActionRequest(inputs=inputs, resources=held, prepare=prepare)
    return actions.begin(context, instance_uuid, "detach_volume", requested)


def keep_or_delete(context: RequestContext, instance_uuid: str, volume_id: str, *, delete_on_termination: bool) -> None:
    """Set whether the volume is deleted with its server. Raises NotFound."""
    attachment = get(context, instance_uuid, volume_id)
    alias = actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        rows = BlockDevice.objects.using(alias).filter(uuid=attachment.attachment_id)
        if not rows.update(delete_on_termination=delete_on_termination):
            raise NotFound(f"volume_id not found: {volume_id[:60]}")


def release_of_gone() -> int:
    """Release volumes of deleted servers, once their hosts are up again and have destroyed the guests. Return how
    many.
    """
    freed = 0
    for alias in cell_aliases(with_cell0=False):
        gone = Instance.objects.using(alias).filter(deleted_at__isnull=False).values("uuid")
        for device in BlockDevice.objects.using(alias).filter(instance_uuid__in=gone):
            freed += _release_unless_deferred(alias, device)
    return freed


def _release_unless_deferred(alias: str, device: BlockDevice) -> bool:
    if outbox.deferred_about(alias, device.instance_uuid).exists():
        return False
    with write_tx():
        operations.let_go(str(device.uuid), is_deleted=device.delete_on_termination)
    operations.settle(device.volume_uuid)
    with write_tx(alias):
        BlockDevice.objects.using(alias).filter(pk=device.pk).delete()
    return True


def _wanted(context: RequestContext, requested: AttachmentCreate) -> Volume:
    volume = get_visible(context, requested.volume_id)
    if volume.is_multiattach and not requested.may_share:
        raise Invalid("Volumes that several servers can have are attached from version 2.60 on.", field="volumeId")
    return volume


def _refuse(there: Any, volume: Volume, instance: Instance) -> None:
    if there.filter(volume_uuid=volume.uuid).exists():
        raise Invalid(f"Invalid volume: volume {volume.uuid} already attached to instance {instance.uuid}.")
    now = Volume.objects.filter(pk=volume.pk).first()
    if now is None or not operations.is_free(now):
        status = operations.counted_status(now) if now else "deleted"
        raise Invalid(
            f"Invalid volume: volume '{volume.uuid}' status must be 'available'. Currently in '{status}' status."
        )
    if there.count() + 1 >= block_devices.MOST_DEVICES:
        raise Forbidden(f"Instance {instance.uuid} has {there.count()} volumes: a server can have no more.")


def _alive(context: RequestContext, instance_uuid: str) -> str:
    alias = actions.cell_of(context, instance_uuid)
    if not Instance.objects.using(alias).alive().filter(uuid=instance_uuid).exists():
        raise missing(instance_uuid)
    return alias


def _view(row: BlockDevice) -> Attachment:
    return Attachment(
        attachment_id=str(row.uuid),
        volume_id=str(row.volume_uuid),
        instance_uuid=str(row.instance_uuid),
        device=row.device_name,
        tag=row.tag,
        delete_on_termination=row.delete_on_termination,
    )


def swap(context: RequestContext, instance_uuid: str, volume_id: str, new_volume_id: str) -> str:
    """Copy the data of a server's volume to another one, which then replaces it. Return the uuid of the workflow.

    Raises NotFound, Invalid for an unsuitable volume, Conflict for a locked server or volume or a host that is down,
    NotSupported.
    """
    attachment = get(context, instance_uuid, volume_id)
    old = get_visible(context, attachment.volume_id)
    new = get_visible(context, new_volume_id)
    new_attachment_id = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        there = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid)
        if not there.filter(uuid=attachment.attachment_id).exists():
            raise NotFound(f"volume_id not found: {volume_id[:60]}")
        _refuse_swap(old, new)
        # Until it replaces the other volume it has a device of its own, so that a delete of the server finds it.
        device = block_devices.free(list(there.values_list("device_name", flat=True)), "")
        BlockDevice.objects.using(alias).create(
            uuid=new_attachment_id,
            instance_uuid=instance.uuid,
            volume_uuid=new.uuid,
            device_name=device,
            connection=operations.connection_of(new, device),
            created_at=database_now(),
        )

    inputs = {
        "volume_id": str(new.uuid),
        "attachment_id": str(new_attachment_id),
        "old_volume_id": attachment.volume_id,
        "old_attachment_id": attachment.attachment_id,
    }
    held = actions.volume_locks([old.uuid, new.uuid], attachment.instance_uuid)
    return actions.begin(
        context, instance_uuid, "swap_volume", ActionRequest(inputs=inputs, resources=held, prepare=prepare)
    )


def _refuse_swap(old: Volume, new: Volume) -> None:
    """Raise Invalid for an unsuitable volume. Values that may have changed are read again."""
    field = "volumeAttachment.volumeId"
    if new.uuid == old.uuid:
        raise Invalid(f"Invalid volume: volume {new.uuid} is attached already.", field=field)
    if new.project_id != old.project_id:
        raise Invalid(f"Invalid volume: volume {new.uuid} is of another project than {old.uuid}.", field=field)
    if new.size_gb < old.size_gb:
        raise Invalid(
            f"Invalid volume: volume {new.uuid} has {new.size_gb} GB, less than the {old.size_gb} GB of {old.uuid}.",
            field=field,
        )
    if old.is_multiattach and old.attachments.count() > 1:
        raise Invalid(f"Invalid volume: volume {old.uuid} is attached to several servers.", field=field)
    now = Volume.objects.in_bulk((old.pk, new.pk))
    for volume, wanted in ((old, IN_USE), (new, AVAILABLE)):
        status = operations.counted_status(now[volume.pk]) if volume.pk in now else "deleted"
        if status != wanted:
            raise Invalid(
                f"Invalid volume: volume '{volume.uuid}' status must be '{wanted}'. Currently in '{status}' status.",
                field=field,
            )
