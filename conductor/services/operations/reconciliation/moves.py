"""Discrepancies of moves: unfinished ones without a workflow."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cell_db.models import Migration
from conductor.core.states import MigrationStatus, VmState
from conductor.db.transactions import database_now, write_tx
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind


def _unworked(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find open moves without a workflow. A resize that waits for its confirmation needs none."""
    for uuid, move in facts.moves.items():
        instance = facts.alive.get(move.instance_uuid)
        is_waiting = move.status == MigrationStatus.FINISHED and instance and instance.vm_state == VmState.RESIZED
        if move.is_open and not is_waiting:
            yield Discrepancy(
                subject=f"move:{uuid}",
                detail=f"Move {uuid} of instance {move.instance_uuid} is {move.status}, and no workflow works on it.",
                cell=move.cell,
                instance_uuid=move.instance_uuid,
                touches=(instance_resource(move.instance_uuid),),
                data=move.status,
            )


def _end(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Mark the move as failed. Its allocations stay, as the guest may be at either end."""
    with write_tx(found.cell):
        rows = Migration.objects.using(found.cell).filter(uuid=found.subject.partition(":")[2], status=found.data)
        changed = rows.update(status=MigrationStatus.ERROR, updated_at=database_now())
    return "It counts as failed; what it holds is kept." if changed else ""


KINDS = (DiscrepancyKind("move_without_workflow", "Migration without a workflow", _unworked, _end),)
