"""Volumes of servers: attach, detach, and what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.cells.lookup import cell_aliases
from conductor.cells.silence import is_silent
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.rpc import outbox
from conductor.services import device_names, server_actions
from conductor.services.instance_queries import missing
from conductor.services.server_actions import Asked
from conductor.transactions import database_now, write_tx
from conductor.volume import operations
from conductor.volume.models import Volume
from conductor.volume.queries import get_visible
from conductor.volume.states import AVAILABLE


@dataclass(frozen=True)
class AttachWish:
    """A volume for a server; `device` "" lets us choose its name. `may_share`: also one that other servers can have."""

    volume_id: str
    device: str = ""
    tag: str | None = None
    delete_on_termination: bool = False
    may_share: bool = True


@dataclass(frozen=True)
class Attachment:
    """A volume of a server, as it is or is about to be."""

    attachment_id: str
    volume_id: str
    instance_uuid: str
    device: str
    tag: str | None = None
    delete_on_termination: bool = False
    run_uuid: str = ""


def list_attachments(context: RequestContext, instance_uuid: str) -> list[Attachment]:
    """Oldest first. Raises NotFound, Conflict for a server that is still being scheduled."""
    alias = _alive(context, instance_uuid)
    rows = BlockDevice.objects.using(alias).filter(instance_uuid=instance_uuid).order_by("pk")
    return [_view(row) for row in rows]


def get(context: RequestContext, instance_uuid: str, volume_id: str) -> Attachment:
    """Raises NotFound."""
    for attachment in list_attachments(context, instance_uuid):
        if attachment.volume_id == volume_id.lower():
            return attachment
    raise NotFound(f"volume_id not found: {volume_id[:60]}")


def attach(context: RequestContext, instance_uuid: str, wish: AttachWish) -> Attachment:
    """Have a volume attached; its device name is decided here.

    Raises NotFound, Invalid for a volume that is not free, Conflict for a server or volume under work or a device
    name in use, NotSupported.
    """
    server_actions.cell_of(context, instance_uuid)  # an unknown server is told before an unknown volume
    volume = _wanted(context, wish)
    attachment_id = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        there = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid)
        _refuse(there, volume, instance)
        device = device_names.free(list(there.values_list("device_name", flat=True)), wish.device)
        BlockDevice.objects.using(alias).create(
            uuid=attachment_id,
            instance_uuid=instance.uuid,
            volume_uuid=volume.uuid,
            device_name=device,
            tag=wish.tag,
            delete_on_termination=wish.delete_on_termination,
            connection=operations.connection_of(volume, device),
            created_at=database_now(),
        )

    inputs = {"volume_id": str(volume.uuid), "attachment_id": str(attachment_id)}
    held = server_actions.volume_locks([volume.uuid], instance_uuid)
    asked = Asked(inputs=inputs, resources=held, prepare=prepare)
    run_uuid = server_actions.begin(context, instance_uuid, "attach_volume", asked)
    alias = server_actions.cell_of(context, instance_uuid)
    device = BlockDevice.objects.using(alias).filter(uuid=attachment_id).first()
    return Attachment(
        attachment_id=str(attachment_id),
        volume_id=str(volume.uuid),
        instance_uuid=instance_uuid,
        device=device.device_name if device else wish.device,  # gone when it has failed already
        tag=wish.tag,
        delete_on_termination=wish.delete_on_termination,
        run_uuid=run_uuid,
    )


def detach(context: RequestContext, instance_uuid: str, volume_id: str) -> str:
    """Have a volume detached; the uuid of the workflow.

    Raises NotFound, Forbidden for the root disk, Conflict for a server or volume under work or a silent host.
    """
    attachment = get(context, instance_uuid, volume_id)
    inputs: dict[str, Any] = {"volume_id": attachment.volume_id, "attachment_id": attachment.attachment_id}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        device = BlockDevice.objects.using(alias).filter(uuid=attachment.attachment_id).first()
        if device is None:
            raise NotFound(f"volume_id not found: {volume_id[:60]}")
        if device.boot_index == 0:
            raise Forbidden("Cannot detach a root device volume")
        if instance.host and is_silent(alias, instance.host):
            raise Conflict(f"Cannot 'detach_volume' instance {instance.uuid}: its host does not answer.")

    held = server_actions.volume_locks([UUID(attachment.volume_id)], attachment.instance_uuid)
    asked = Asked(inputs=inputs, resources=held, prepare=prepare)
    return server_actions.begin(context, instance_uuid, "detach_volume", asked)


def keep_or_delete(context: RequestContext, instance_uuid: str, volume_id: str, *, delete_on_termination: bool) -> None:
    """Say whether the volume goes with its server. Raises NotFound."""
    attachment = get(context, instance_uuid, volume_id)
    alias = server_actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        rows = BlockDevice.objects.using(alias).filter(uuid=attachment.attachment_id)
        if not rows.update(delete_on_termination=delete_on_termination):
            raise NotFound(f"volume_id not found: {volume_id[:60]}")


def release_of_gone() -> int:
    """Free volumes of deleted servers whose hosts were silent then and have let the guest go since; counts them."""
    freed = 0
    for alias in cell_aliases(with_cell0=False):
        gone = Instance.objects.using(alias).filter(deleted_at__isnull=False).values("uuid")
        for device in BlockDevice.objects.using(alias).filter(instance_uuid__in=gone):
            freed += _release_unless_owed(alias, device)
    return freed


def _release_unless_owed(alias: str, device: BlockDevice) -> bool:
    if outbox.owed_about(alias, device.instance_uuid).exists():
        return False
    with write_tx():
        operations.let_go(str(device.uuid), is_deleted=device.delete_on_termination)
    operations.settle(device.volume_uuid)
    with write_tx(alias):
        BlockDevice.objects.using(alias).filter(pk=device.pk).delete()
    return True


def _wanted(context: RequestContext, wish: AttachWish) -> Volume:
    volume = get_visible(context, wish.volume_id)
    if volume.is_multiattach and not wish.may_share:
        raise Invalid("Volumes that several servers can have are attached from version 2.60 on.", field="volumeId")
    return volume


def _refuse(there: Any, volume: Volume, instance: Instance) -> None:
    if there.filter(volume_uuid=volume.uuid).exists():
        raise Invalid(f"Invalid volume: volume {volume.uuid} already attached to instance {instance.uuid}.")
    status = Volume.objects.filter(pk=volume.pk).values_list("status", flat=True).first() or "deleted"
    if status != AVAILABLE and not (volume.is_multiattach and status in operations.SHAREABLE):
        raise Invalid(
            f"Invalid volume: volume '{volume.uuid}' status must be 'available'. Currently in '{status}' status."
        )
    if there.count() + 1 >= device_names.MOST_DEVICES:
        raise Forbidden(f"Instance {instance.uuid} has {there.count()} volumes: a server can have no more.")


def _alive(context: RequestContext, instance_uuid: str) -> str:
    alias = server_actions.cell_of(context, instance_uuid)
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
