"""Another volume in the place of one that a server has."""

from __future__ import annotations

from uuid import UUID, uuid4

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.services import device_names, server_actions, server_volumes
from conductor.services.server_actions import Asked
from conductor.transactions import database_now
from conductor.volume import operations
from conductor.volume.models import Volume
from conductor.volume.queries import get_visible
from conductor.volume.states import AVAILABLE, IN_USE


def swap(context: RequestContext, instance_uuid: str, volume_id: str, new_volume_id: str) -> str:
    """Have the data of a server's volume copied into another one, which the server has from then on; the workflow.

    Raises NotFound, Invalid for a volume that cannot take the place, Conflict for a server or volume under work or a
    silent host, NotSupported.
    """
    attachment = server_volumes.get(context, instance_uuid, volume_id)
    old = get_visible(context, attachment.volume_id)
    new = get_visible(context, new_volume_id)
    new_attachment_id = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        there = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid)
        if not there.filter(uuid=attachment.attachment_id).exists():
            raise NotFound(f"volume_id not found: {volume_id[:60]}")
        _refuse(old, new)
        # Until it has the place of the other it has one of its own, so that whatever ends the server finds it.
        device = device_names.free(list(there.values_list("device_name", flat=True)), "")
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
    held = server_actions.volume_locks([old.uuid, new.uuid], attachment.instance_uuid)
    return server_actions.begin(
        context, instance_uuid, "swap_volume", Asked(inputs=inputs, resources=held, prepare=prepare)
    )


def _refuse(old: Volume, new: Volume) -> None:
    """Raises Invalid; asks the database for what may have changed since."""
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
    now = dict(Volume.objects.filter(pk__in=(old.pk, new.pk)).values_list("pk", "status"))
    for volume, wanted in ((old, IN_USE), (new, AVAILABLE)):
        status = now.get(volume.pk, "deleted")
        if status != wanted:
            raise Invalid(
                f"Invalid volume: volume '{volume.uuid}' status must be '{wanted}'. Currently in '{status}' status.",
                field=field,
            )
