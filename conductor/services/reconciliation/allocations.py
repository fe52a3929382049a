"""Capacity: what is held for nobody, and who holds nothing where it lives."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Sum

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.states import MigrationStatus
from conductor.placement import allocations
from conductor.placement.changes import touch
from conductor.placement.models import Allocation, Inventory, ResourceProvider
from conductor.scheduler import claim_again
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind, Severity
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import write_tx


def _of_nobody(facts: Facts) -> Iterator[Found]:
    """Held by an instance that was deleted, by a move that has ended, or by somebody of whom no database has heard."""
    for consumer in facts.api.held:
        move = facts.moves.get(consumer)
        if move is not None and facts.is_dead(move.instance_uuid) and not facts.is_busy(move.instance_uuid):
            detail = f"Move {consumer} of instance {move.instance_uuid}, which was deleted, holds capacity."
            yield Found(
                subject=f"allocation:{consumer}", detail=detail, instance_uuid=move.instance_uuid, data=consumer
            )
        elif facts.is_dead(consumer) or (facts.is_unheard_of(consumer) and consumer not in facts.api.strangers):
            yield Found(
                subject=f"allocation:{consumer}",
                detail=f"Consumer {consumer} is neither an instance nor a move, and holds capacity.",
                instance_uuid=consumer if facts.is_dead(consumer) else "",
                touches=(instance_resource(consumer),),
                data=consumer,
            )


def _of_failed_move(facts: Facts) -> Iterator[Found]:
    """Nobody knows on which side the guest is, so nobody but a person can say what is free."""
    for consumer in facts.api.held:
        move = facts.moves.get(consumer)
        if move is not None and move.status in (MigrationStatus.FAILED, MigrationStatus.ERROR):
            if facts.is_dead(move.instance_uuid):
                continue
            yield Found(
                subject=f"allocation:{consumer}",
                detail=f"Move {consumer} of instance {move.instance_uuid} has failed, and still holds capacity.",
                cell=move.cell,
                instance_uuid=move.instance_uuid,
                touches=(instance_resource(move.instance_uuid),),
            )


def _free(facts: Facts, found: Found) -> str:
    with write_tx(API_ALIAS):
        if InstanceMapping.objects.filter(instance_uuid=found.data, is_deleted=False, cell__isnull=True).exists():
            return ""  # it is being built
        return "Its allocation was freed." if allocations.release([found.data]) else ""


def _without_host(facts: Facts) -> Iterator[Found]:
    for uuid in facts.api.held:
        instance = facts.alive.get(uuid)
        if instance is not None and not instance.host and uuid not in facts.moving:
            yield Found(
                subject=f"allocation:{uuid}",
                detail=f"Instance {uuid} is on no host, and holds capacity.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
                data=uuid,
            )


def _missing(facts: Facts) -> Iterator[Found]:
    for uuid, instance in facts.alive.items():
        if instance.host and facts.provider_of(instance) and not facts.api.held.get(uuid) and uuid not in facts.moving:
            yield Found(
                subject=f"instance:{uuid}",
                detail=f"Instance {uuid} lives on {instance.host} and holds no capacity there.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
                data=facts.provider_of(instance),
            )


def _claim(facts: Facts, found: Found) -> str:
    """Raises ProviderFull where others have taken the room meanwhile, ConsumerHolds where somebody was quicker."""
    row = Instance.objects.using(found.cell).alive().filter(uuid=found.instance_uuid, host__isnull=False).first()
    if row is None:
        return ""
    claim_again.claim_at(row, found.data)
    return f"Its size was claimed on {row.host}."


def _elsewhere(facts: Facts) -> Iterator[Found]:
    for uuid, providers in facts.api.held.items():
        instance = facts.alive.get(uuid)
        if instance is None or not instance.host or not providers or uuid in facts.moving:
            continue
        wanted = facts.provider_of(instance)
        if wanted and providers != {wanted}:
            yield Found(
                subject=f"instance:{uuid}",
                detail=f"Instance {uuid} is on {instance.host}, and holds capacity of {', '.join(sorted(providers))}.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
            )


def _miscounted(facts: Facts) -> Iterator[Found]:
    for use in facts.api.miscounted:
        yield Found(
            subject=f"inventory:{use.provider_uuid}:{use.resource_class}",
            detail=(
                f"Of {use.resource_class} at provider {use.provider_uuid} {use.used} count as used, and {use.held} "
                "are held."
            ),
            data=use.inventory_id,
        )


def _count_again(facts: Facts, found: Found) -> str:
    with write_tx(API_ALIAS):
        row = Inventory.objects.filter(pk=found.data).first()
        if row is None:
            return ""
        # Claims hold the provider first, so nothing is taken or given back while we count.
        list(ResourceProvider.objects.filter(pk=row.provider_id).select_for_update())
        held = Allocation.objects.filter(provider_id=row.provider_id, resource_class=row.resource_class)
        total = held.aggregate(total=Sum("amount"))["total"] or 0
        changed = Inventory.objects.filter(pk=row.pk).exclude(used=total).update(used=total)
        touch({row.provider_id})
    return f"Counted again: {total}." if changed else ""


KINDS = (
    Kind("allocation_of_nobody", "Capacity held by nobody", _of_nobody, _free),
    Kind("allocation_of_failed_move", "Capacity held by a move that has failed", _of_failed_move),
    Kind("allocation_without_host", "Capacity held by a server on no host", _without_host, _free),
    Kind("instance_without_allocation", "Server that holds no capacity", _missing, _claim, Severity.CRITICAL),
    Kind("allocation_on_wrong_host", "Capacity held on another host", _elsewhere, severity=Severity.CRITICAL),
    Kind("usage_miscounted", "Use that is not the sum of allocations", _miscounted, _count_again),
)
