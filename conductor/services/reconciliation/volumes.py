"""Volumes: lent to servers that are gone, lent by halves, and lent without the server's cell knowing."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cell_db.models import BlockDevice
from conductor.cells.lookup import API_ALIAS
from conductor.services.reconciliation.api_facts import AttachmentFact
from conductor.services.reconciliation.cell_facts import DeviceFact
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind, Severity
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import write_tx
from conductor.volume import operations
from conductor.volume.models import VolumeAttachment
from conductor.volume.states import ATTACHING, DETACHING


def _found(row: AttachmentFact | DeviceFact, cell: str, detail: str) -> Found:
    return Found(
        subject=f"volume:{row.volume_uuid}",
        detail=detail,
        cell=cell,
        instance_uuid=row.instance_uuid,
        touches=(f"volume:{row.volume_uuid}", instance_resource(row.instance_uuid)),
        data=row.uuid,
    )


def _of_dead(facts: Facts) -> Iterator[Found]:
    for row in facts.api.attachments:
        if facts.is_dead(row.instance_uuid):
            detail = f"Volume {row.volume_uuid} is lent to instance {row.instance_uuid}, which was deleted."
            yield _found(row, "", detail)


def _release(facts: Facts, found: Found) -> str:
    with write_tx(API_ALIAS):
        if not VolumeAttachment.objects.filter(uuid=found.data, instance_uuid=found.instance_uuid).exists():
            return ""
        operations.release(found.data)
    return "It is available again, with all that is on it."


def _half_lent(facts: Facts) -> Iterator[Found]:
    for row in facts.api.attachments:
        instance = facts.alive.get(row.instance_uuid)
        if instance is not None and row.status in (ATTACHING, DETACHING):
            detail = f"Volume {row.volume_uuid} is {row.status} for instance {instance.uuid}, and nothing works on it."
            yield _found(row, instance.cell, detail)


def _without_device(facts: Facts) -> Iterator[Found]:
    for row in facts.api.attachments:
        instance = facts.alive.get(row.instance_uuid)
        if instance is None or row.status in (ATTACHING, DETACHING):
            continue
        if row.uuid not in facts.cells[instance.cell].devices:
            detail = f"Volume {row.volume_uuid} is lent to instance {instance.uuid}, whose cell has no such device."
            yield _found(row, instance.cell, detail)


def _without_attachment(facts: Facts) -> Iterator[Found]:
    lent = {row.uuid for row in facts.api.attachments}
    for alias, cell in facts.cells.items():
        for row in cell.devices.values():
            if row.uuid not in lent and row.instance_uuid in cell.instances:
                detail = f"Instance {row.instance_uuid} has volume {row.volume_uuid}, which is not lent to it."
                yield _found(row, alias, detail)


def _device_of_dead(facts: Facts) -> Iterator[Found]:
    lent = {row.uuid for row in facts.api.attachments}
    for alias, cell in facts.cells.items():
        for row in cell.devices.values():
            if row.uuid not in lent and facts.is_dead(row.instance_uuid):
                yield _found(row, alias, f"Instance {row.instance_uuid} was deleted, and its device is still written.")


def _forget(facts: Facts, found: Found) -> str:
    with write_tx(found.cell):
        count, _ = BlockDevice.objects.using(found.cell).filter(uuid=found.data).delete()
    return "The device was removed." if count else ""


KINDS = (
    Kind("volume_of_dead_instance", "Volume lent to a server that was deleted", _of_dead, _release),
    Kind("device_of_dead_instance", "Device of a server that was deleted", _device_of_dead, _forget),
    Kind("volume_half_lent", "Volume between two states, without a workflow", _half_lent),
    Kind("attachment_without_device", "Volume that its server's cell does not know", _without_device),
    Kind(
        "device_without_attachment", "Server with a volume that is not lent to it", _without_attachment,
        severity=Severity.CRITICAL,
    ),
)  # fmt: skip
