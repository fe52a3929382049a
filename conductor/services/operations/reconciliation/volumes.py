"""Discrepancies of volumes: attached to deleted servers, half attached, and unknown to the server's cell."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cell_db.models import BlockDevice
from conductor.cells.lookup import API_ALIAS
from conductor.db.transactions import write_tx
from conductor.services.operations.reconciliation.api_facts import AttachmentFact
from conductor.services.operations.reconciliation.cell_facts import DeviceFact
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity
from conductor.volume import operations
from conductor.volume.models import VolumeAttachment
from conductor.volume.states import ATTACHING, DETACHING


def _found(row: AttachmentFact | DeviceFact, cell: str, detail: str) -> Discrepancy:
    return Discrepancy(
        subject=f"volume:{row.volume_uuid}",
        detail=detail,
        cell=cell,
        instance_uuid=row.instance_uuid,
        touches=(f"volume:{row.volume_uuid}", instance_resource(row.instance_uuid)),
        data=row.uuid,
    )


def _of_dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for row in facts.api.attachments:
        if facts.is_dead(row.instance_uuid):
            detail = f"Volume {row.volume_uuid} is attached to instance {row.instance_uuid}, which was deleted."
            yield _found(row, "", detail)


def _release(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(API_ALIAS):
        if not VolumeAttachment.objects.filter(uuid=found.data, instance_uuid=found.instance_uuid).exists():
            return ""
        operations.release(found.data)
    return "It is available again, with all that is on it."


def _half_lent(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for row in facts.api.attachments:
        instance = facts.alive.get(row.instance_uuid)
        if instance is not None and row.status in (ATTACHING, DETACHING):
            detail = f"Volume {row.volume_uuid} is {row.status} for instance {instance.uuid}, and nothing works on it."
            yield _found(row, instance.cell, detail)


def _without_device(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for row in facts.api.attachments:
        instance = facts.alive.get(row.instance_uuid)
        if instance is None or row.status in (ATTACHING, DETACHING):
            continue
        if row.uuid not in facts.cells[instance.cell].devices:
            detail = f"Volume {row.volume_uuid} is attached to instance {instance.uuid}, whose cell has no such device."
            yield _found(row, instance.cell, detail)


def _without_attachment(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    lent = {row.uuid for row in facts.api.attachments}
    for alias, cell in facts.cells.items():
        for row in cell.devices.values():
            if row.uuid not in lent and row.instance_uuid in cell.instances:
                detail = f"Instance {row.instance_uuid} has volume {row.volume_uuid}, which is not attached to it."
                yield _found(row, alias, detail)


def _device_of_dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    lent = {row.uuid for row in facts.api.attachments}
    for alias, cell in facts.cells.items():
        for row in cell.devices.values():
            if row.uuid not in lent and facts.is_dead(row.instance_uuid):
                yield _found(row, alias, f"Instance {row.instance_uuid} was deleted, and its device is still written.")


def _forget(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(found.cell):
        count, _ = BlockDevice.objects.using(found.cell).filter(uuid=found.data).delete()
    return "The device was removed." if count else ""


KINDS = (
    DiscrepancyKind("volume_of_dead_instance", "Volume attached to a deleted server", _of_dead, _release),
    DiscrepancyKind("device_of_dead_instance", "Block device of a deleted server", _device_of_dead, _forget),
    DiscrepancyKind("volume_half_lent", "Volume in a transitional state without a workflow", _half_lent),
    DiscrepancyKind("attachment_without_device", "Volume attachment missing from the server's cell", _without_device),
    DiscrepancyKind(
        "device_without_attachment", "Server with a volume that isn't attached to it", _without_attachment,
        severity=Severity.CRITICAL,
    ),
)  # fmt: skip
