"""The block device that a run works on: its row in the cell, and its lending in the volume service."""

from __future__ import annotations

from django.db.models import QuerySet

from conductor.cell_db.models import BlockDevice
from conductor.core.errors import NotFound
from conductor.volume.operations import Lending
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows


def rows(work: Work) -> QuerySet[BlockDevice]:
    """The device of the run's inputs; none when it is gone."""
    return BlockDevice.objects.using(work.alias).filter(uuid=work.inputs["attachment_id"])


def read(work: Work) -> BlockDevice:
    """Raises NotFound when it is gone."""
    device = rows(work).first()
    if device is None:
        raise NotFound(f"Attachment {work.inputs['attachment_id']} is gone.")
    return device


def lending(work: Work) -> Lending:
    """What the volume service is to know of it."""
    device = read(work)
    return Lending(
        attachment_uuid=str(device.uuid),
        volume_uuid=str(device.volume_uuid),
        instance_uuid=work.instance_uuid,
        device=device.device_name,
        host=instance_rows.read(work).host or "",
    )
