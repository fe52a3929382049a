"""The block device that a run works on: its row in the cell, and its attachment in the volume service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from conductor.cell_db.models import BlockDevice
from conductor.core.errors import NotFound
from conductor.core.states import StepState
from conductor.journal.models import OutboxMessage, StepRecord
from conductor.volume.operations import NewAttachment
from conductor.workflows.flow import StepContext
from conductor.workflows.steps import instance_rows


def rows(work: StepContext) -> QuerySet[BlockDevice]:
    """Return the device of the run's inputs. Empty when it is gone."""
    return BlockDevice.objects.using(work.alias).filter(uuid=work.inputs["attachment_id"])


def read(work: StepContext) -> BlockDevice:
    """Return the device. Raises NotFound when it is gone."""
    device = rows(work).first()
    if device is None:
        raise NotFound(f"Attachment {work.inputs['attachment_id']} is gone.")
    return device


def replaced(work: StepContext) -> BlockDevice:
    """Return the device that the run's device replaces. Raises NotFound when it is gone."""
    device = BlockDevice.objects.using(work.alias).filter(uuid=work.inputs["old_attachment_id"]).first()
    if device is None:
        raise NotFound(f"Attachment {work.inputs['old_attachment_id']} is gone.")
    return device


def in_place_of(device: BlockDevice, connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection with the device name and boot index of `device`."""
    return {**connection, "device_name": device.device_name, "boot_index": device.boot_index}


def lending(work: StepContext) -> NewAttachment:
    """Return the device's attachment for the volume service."""
    device = read(work)
    return NewAttachment(
        attachment_uuid=str(device.uuid),
        volume_uuid=str(device.volume_uuid),
        instance_uuid=work.instance_uuid,
        device=device.device_name,
        host=instance_rows.read(work).host or "",
    )


def kept_by(work: StepContext) -> str:
    """Return the host whose guest may still have the run's volumes or port. Empty if there is none.

    Such a host is unresponsive and has a deferred command, or its undo has failed for good.
    """
    deferred = OutboxMessage.objects.using(work.alias).filter(run_uuid=work.run.uuid, is_deferred=True).first()
    if deferred is not None or not work.run.uncompensated:
        return deferred.host if deferred is not None else ""
    undo = StepRecord.objects.using(work.alias).filter(run=work.run, direction="undo", attempt=work.run.attempt)
    done = undo.filter(state=StepState.UNDONE).values("index")
    failed = undo.filter(state=StepState.UNDO_FAILED).exclude(host="").exclude(index__in=done).first()
    return failed.host if failed is not None else ""
