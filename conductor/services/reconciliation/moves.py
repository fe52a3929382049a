"""Moves that no workflow carries on."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cell_db.models import Migration
from conductor.core.states import MigrationStatus, VmState
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import database_now, write_tx


def _unworked(facts: Facts) -> Iterator[Found]:
    """A resize that waits for its confirmation needs no workflow."""
    for uuid, move in facts.moves.items():
        instance = facts.alive.get(move.instance_uuid)
        is_waiting = move.status == MigrationStatus.FINISHED and instance and instance.vm_state == VmState.RESIZED
        if move.is_open and not is_waiting:
            yield Found(
                subject=f"move:{uuid}",
                detail=f"Move {uuid} of instance {move.instance_uuid} is {move.status}, and no workflow works on it.",
                cell=move.cell,
                instance_uuid=move.instance_uuid,
                touches=(instance_resource(move.instance_uuid),),
                data=move.status,
            )


def _end(facts: Facts, found: Found) -> str:
    """What it holds stays held: nobody knows on which side the guest is."""
    with write_tx(found.cell):
        rows = Migration.objects.using(found.cell).filter(uuid=found.subject.partition(":")[2], status=found.data)
        changed = rows.update(status=MigrationStatus.ERROR, updated_at=database_now())
    return "It counts as failed; what it holds is kept." if changed else ""


KINDS = (Kind("move_without_workflow", "Move that no workflow carries on", _unworked, _end),)
