"""Instances: where they are said to be, and states that no workflow is going to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conductor import events
from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import API_ALIAS
from conductor.core.states import VmState
from conductor.journal.models import WorkflowRun
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind, Severity
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import database_now, write_tx

FAULT = "The workflow that worked on it ended without saying so, and what it showed was cleared."


def _found(uuid: str, detail: str, cell: str = "", data: object = None) -> Found:
    touches = (instance_resource(uuid),)
    return Found(subject=f"instance:{uuid}", detail=detail, cell=cell, instance_uuid=uuid, touches=touches, data=data)


def _stuck(facts: Facts) -> Iterator[Found]:
    for uuid, instance in facts.alive.items():
        if instance.task_state is not None or instance.vm_state == VmState.BUILDING:
            shown = instance.task_state or instance.vm_state
            detail = f"Instance {uuid} says {shown}, and no workflow works on it."
            yield _found(uuid, detail, instance.cell, (instance.vm_state, instance.task_state))


def _clear(facts: Facts, found: Found) -> str:
    """As it was before, with a fault; a build that nobody goes on with has failed."""
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


def _doubled(facts: Facts) -> Iterator[Found]:
    seen = Counter(uuid for cell in facts.cells.values() for uuid in cell.instances)
    for uuid in (uuid for uuid, count in seen.items() if count > 1):
        cells = ", ".join(sorted(alias for alias, cell in facts.cells.items() if uuid in cell.instances))
        yield _found(uuid, f"Instance {uuid} is in several cells: {cells}.")


def _unmapped(facts: Facts) -> Iterator[Found]:
    for uuid, instance in facts.alive.items():
        mapping = facts.api.mappings.get(uuid)
        if mapping is None or mapping.cell != instance.cell:
            said = f"is mapped to {mapping.cell or 'no cell'}" if mapping else "is mapped nowhere"
            yield _found(uuid, f"Instance {uuid} is in {instance.cell} and {said}.", instance.cell)


def _deleted_but_mapped(facts: Facts) -> Iterator[Found]:
    for uuid, mapping in facts.api.mappings.items():
        if mapping.cell in facts.cells and facts.is_dead(uuid):
            yield _found(uuid, f"Instance {uuid} was deleted in {mapping.cell}, and counts as there.", mapping.cell)


def _unmap(facts: Facts, found: Found) -> str:
    with write_tx(API_ALIAS):
        rows = InstanceMapping.objects.filter(instance_uuid=found.instance_uuid, is_deleted=False)
        changed = rows.filter(cell__name=found.cell).update(is_deleted=True)
    return "It counts as deleted, and its share of the quota is free." if changed else ""


def _missing(facts: Facts) -> Iterator[Found]:
    for uuid, mapping in facts.api.mappings.items():
        if mapping.cell in facts.cells and uuid not in facts.alive and uuid not in facts.dead:
            yield _found(uuid, f"Instance {uuid} is mapped to {mapping.cell}, which does not know it.", mapping.cell)


def _of_nothing(facts: Facts) -> Iterator[Found]:
    for uuid, mapping in facts.api.mappings.items():
        is_nowhere = facts.is_complete and uuid not in facts.alive and uuid not in facts.api.requests
        if not mapping.cell and is_nowhere:
            yield _found(uuid, f"Instance {uuid} has neither a cell nor a request to build it.")


def _drop(facts: Facts, found: Found) -> str:
    with write_tx(API_ALIAS):
        if BuildRequest.objects.filter(instance_uuid=found.instance_uuid).exists():
            return ""
        rows = InstanceMapping.objects.filter(instance_uuid=found.instance_uuid, is_deleted=False, cell__isnull=True)
        changed = rows.update(is_deleted=True)
    return "It counts as deleted, and its share of the quota is free." if changed else ""


def _unworked(facts: Facts) -> Iterator[Found]:
    for uuid, run_uuid in facts.api.requests.items():
        if run_uuid not in facts.api.journal.run_uuids:
            yield _found(uuid, f"Instance {uuid} was asked for, and its workflow {run_uuid} has ended.", data=run_uuid)


def _fulfilled(facts: Facts, found: Found) -> str:
    """Only where it was fulfilled: a wish that nobody carries out is for a person to look at."""
    if found.instance_uuid not in facts.alive:
        return ""
    with write_tx(API_ALIAS):
        count, _ = BuildRequest.objects.filter(instance_uuid=found.instance_uuid, run_uuid=found.data).delete()
    return "The request was removed: the instance is there." if count else ""


CRITICAL = Severity.CRITICAL
KINDS = (
    Kind("instance_doubled", "Server in several cells", _doubled, severity=CRITICAL, grace_seconds=0.0),
    Kind("instance_unmapped", "Server whose cell is not the one it is looked for in", _unmapped, severity=CRITICAL),
    Kind("instance_missing", "Server that its cell does not know", _missing, severity=CRITICAL),
    Kind("state_without_workflow", "State that no workflow is going to change", _stuck, _clear),
    Kind("mapping_of_dead_instance", "Deleted server that counts as there", _deleted_but_mapped, _unmap),
    Kind("mapping_of_nothing", "Server that is nowhere", _of_nothing, _drop),
    Kind("request_without_workflow", "Request that no workflow carries out", _unworked, _fulfilled, CRITICAL),
)
