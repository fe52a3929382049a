"""Discrepancies of instances: their mapping to cells, and task states without a workflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conductor import events
from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import API_ALIAS
from conductor.core.states import VmState
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import WorkflowRun
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity

FAULT = "The workflow that worked on it ended without saying so, and what it showed was cleared."


def _found(uuid: str, detail: str, cell: str = "", data: object = None) -> Discrepancy:
    touches = (instance_resource(uuid),)
    return Discrepancy(
        subject=f"instance:{uuid}", detail=detail, cell=cell, instance_uuid=uuid, touches=touches, data=data
    )


def _stuck(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, instance in facts.alive.items():
        if instance.task_state is not None or instance.vm_state == VmState.BUILDING:
            shown = instance.task_state or instance.vm_state
            detail = f"Instance {uuid} says {shown}, and no workflow works on it."
            yield _found(uuid, detail, instance.cell, (instance.vm_state, instance.task_state))


def _clear(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Clear the task state and record a fault; a build without a workflow becomes an error."""
    alias, (vm_state, task_state) = found.cell, found.data
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive()
        rows = rows.filter(uuid=found.instance_uuid, vm_state=vm_state, task_state=task_state)
        row = rows.select_for_update().first()
        if row is None or WorkflowRun.objects.using(alias).live().filter(instance_uuid=row.uuid).exists():
            return ""
        after = VmState.ERROR if vm_state == VmState.BUILDING else vm_state
        rows.update(vm_state=after, task_state=None, updated_at=database_now())
        InstanceFault.objects.using(alias).create(
            instance_uuid=row.uuid, message=FAULT, details=found.detail, created_at=database_now()
        )
        events.append(alias, events.about_instance(row.uuid, row.project_id), "instance.updated")
    return f"It is {after} now, with a fault."


def _doubled(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    seen = Counter(uuid for cell in facts.cells.values() for uuid in cell.instances)
    for uuid in (uuid for uuid, count in seen.items() if count > 1):
        cells = ", ".join(sorted(alias for alias, cell in facts.cells.items() if uuid in cell.instances))
        yield _found(uuid, f"Instance {uuid} is in several cells: {cells}.")


def _unmapped(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, instance in facts.alive.items():
        mapping = facts.api.mappings.get(uuid)
        if mapping is None or mapping.cell != instance.cell:
            sentence = f"is mapped to {mapping.cell or 'no cell'}" if mapping else "is mapped nowhere"
            yield _found(uuid, f"Instance {uuid} is in {instance.cell} and {sentence}.", instance.cell)


def _deleted_but_mapped(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, mapping in facts.api.mappings.items():
        if mapping.cell in facts.cells and facts.is_dead(uuid):
            yield _found(uuid, f"Instance {uuid} was deleted in {mapping.cell}, and counts as there.", mapping.cell)


def _unmap(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(API_ALIAS):
        rows = InstanceMapping.objects.filter(instance_uuid=found.instance_uuid, is_deleted=False)
        changed = rows.filter(cell__name=found.cell).update(is_deleted=True)
    return "It counts as deleted, and its share of the quota is free." if changed else ""


def _missing(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, mapping in facts.api.mappings.items():
        if mapping.cell in facts.cells and uuid not in facts.alive and uuid not in facts.dead:
            yield _found(uuid, f"Instance {uuid} is mapped to {mapping.cell}, which does not know it.", mapping.cell)


def _of_nothing(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, mapping in facts.api.mappings.items():
        is_nowhere = facts.is_complete and uuid not in facts.alive and uuid not in facts.api.requests
        if not mapping.cell and is_nowhere:
            yield _found(uuid, f"Instance {uuid} has neither a cell nor a request to build it.")


def _drop(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(API_ALIAS):
        if BuildRequest.objects.filter(instance_uuid=found.instance_uuid).exists():
            return ""
        rows = InstanceMapping.objects.filter(instance_uuid=found.instance_uuid, is_deleted=False, cell__isnull=True)
        changed = rows.update(is_deleted=True)
    return "It counts as deleted, and its share of the quota is free." if changed else ""


def _unworked(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, run_uuid in facts.api.requests.items():
        if run_uuid not in facts.api.journal.run_uuids:
            yield _found(uuid, f"Instance {uuid} was asked for, and its workflow {run_uuid} has ended.", data=run_uuid)


def _fulfilled(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Remove a request whose instance exists; without one, an operator must decide."""
    if found.instance_uuid not in facts.alive:
        return ""
    with write_tx(API_ALIAS):
        count, _ = BuildRequest.objects.filter(instance_uuid=found.instance_uuid, run_uuid=found.data).delete()
    return "The request was removed: the instance is there." if count else ""


CRITICAL = Severity.CRITICAL
KINDS = (
    DiscrepancyKind("instance_doubled", "Server in several cells", _doubled, severity=CRITICAL, grace_seconds=0.0),
    DiscrepancyKind("instance_unmapped", "Server mapped to the wrong cell", _unmapped, severity=CRITICAL),
    DiscrepancyKind("instance_missing", "Server missing from its cell", _missing, severity=CRITICAL),
    DiscrepancyKind("state_without_workflow", "Task state without a workflow", _stuck, _clear),
    DiscrepancyKind(
        "mapping_of_dead_instance", "Deleted server that is listed as existing", _deleted_but_mapped, _unmap
    ),
    DiscrepancyKind("mapping_of_nothing", "Server in no cell", _of_nothing, _drop),
    DiscrepancyKind("request_without_workflow", "Request without a workflow", _unworked, _fulfilled, CRITICAL),
)
