"""Discrepancies of capacity: allocations without a consumer, and instances without an allocation."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Sum

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.states import MigrationStatus
from conductor.db.transactions import write_tx
from conductor.placement import allocations
from conductor.placement.changes import touch
from conductor.placement.models import Allocation, ProviderInventory, ResourceProvider
from conductor.scheduler import claims
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity


def _without_consumer(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find allocations of a deleted instance, of a move that has ended, or of a consumer unknown to all databases."""
    for consumer in facts.api.held:
        move = facts.moves.get(consumer)
        if move is not None and facts.is_dead(move.instance_uuid) and not facts.is_busy(move.instance_uuid):
            detail = f"Move {consumer} of instance {move.instance_uuid}, which was deleted, holds capacity."
            yield Discrepancy(
                subject=f"allocation:{consumer}", detail=detail, instance_uuid=move.instance_uuid, data=consumer
            )
        elif facts.is_dead(consumer) or (facts.is_unheard_of(consumer) and consumer not in facts.api.external):
            yield Discrepancy(
                subject=f"allocation:{consumer}",
                detail=f"Consumer {consumer} is neither an instance nor a move, and holds capacity.",
                instance_uuid=consumer if facts.is_dead(consumer) else "",
                touches=(instance_resource(consumer),),
                data=consumer,
            )


def _of_failed_move(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find allocations of failed moves. The guest may be on either side, so only an operator can free them."""
    for consumer in facts.api.held:
        move = facts.moves.get(consumer)
        if move is not None and move.status in (MigrationStatus.FAILED, MigrationStatus.ERROR):
            if facts.is_dead(move.instance_uuid):
                continue
            yield Discrepancy(
                subject=f"allocation:{consumer}",
                detail=f"Move {consumer} of instance {move.instance_uuid} has failed, and still holds capacity.",
                cell=move.cell,
                instance_uuid=move.instance_uuid,
                touches=(instance_resource(move.instance_uuid),),
            )


def _free(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(API_ALIAS):
        if InstanceMapping.objects.filter(instance_uuid=found.data, is_deleted=False, cell__isnull=True).exists():
            return ""  # it is being built
        return "Its allocation was freed." if allocations.release([found.data]) else ""


def _without_host(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid in facts.api.held:
        instance = facts.alive.get(uuid)
        if instance is not None and not instance.host and uuid not in facts.moving:
            yield Discrepancy(
                subject=f"allocation:{uuid}",
                detail=f"Instance {uuid} is on no host, and holds capacity.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
                data=uuid,
            )


def _missing(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, instance in facts.alive.items():
        if instance.host and facts.provider_of(instance) and not facts.api.held.get(uuid) and uuid not in facts.moving:
            yield Discrepancy(
                subject=f"instance:{uuid}",
                detail=f"Instance {uuid} lives on {instance.host} and holds no capacity there.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
                data=facts.provider_of(instance),
            )


def _claim(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Claim the instance's size on its host.

    Raises ProviderFull where the host has no room any more, ConsumerHolds where another process was first.
    """
    row = Instance.objects.using(found.cell).alive().filter(uuid=found.instance_uuid, host__isnull=False).first()
    if row is None:
        return ""
    claims.claim_at(row, found.data)
    return f"Its size was claimed on {row.host}."


def _elsewhere(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, providers in facts.api.held.items():
        instance = facts.alive.get(uuid)
        if instance is None or not instance.host or not providers or uuid in facts.moving:
            continue
        wanted = facts.provider_of(instance)
        if wanted and providers != {wanted}:
            yield Discrepancy(
                subject=f"instance:{uuid}",
                detail=f"Instance {uuid} is on {instance.host}, and holds capacity of {', '.join(sorted(providers))}.",
                cell=instance.cell,
                instance_uuid=uuid,
                touches=(instance_resource(uuid),),
            )


def _miscounted(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for use in facts.api.miscounted:
        yield Discrepancy(
            subject=f"inventory:{use.provider_uuid}:{use.resource_class}",
            detail=(
                f"Of {use.resource_class} at provider {use.provider_uuid} {use.used} count as used, and {use.held} "
                "are held."
            ),
            data=use.inventory_id,
        )


def _count_again(facts: ReconciliationFacts, found: Discrepancy) -> str:
    with write_tx(API_ALIAS):
        row = ProviderInventory.objects.filter(pk=found.data).first()
        if row is None:
            return ""
        # Claims lock the provider first, so nothing is claimed or released during the count.
        list(ResourceProvider.objects.filter(pk=row.provider_id).select_for_update())
        held = Allocation.objects.filter(provider_id=row.provider_id, resource_class=row.resource_class)
        total = held.aggregate(total=Sum("amount"))["total"] or 0
        changed = ProviderInventory.objects.filter(pk=row.pk).exclude(used=total).update(used=total)
        touch({row.provider_id})
    return f"Counted again: {total}." if changed else ""


KINDS = (
    DiscrepancyKind("unowned_allocation", "Allocation without a consumer", _without_consumer, _free),
    DiscrepancyKind("allocation_of_failed_move", "Allocation of a failed migration", _of_failed_move),
    DiscrepancyKind("allocation_without_host", "Allocation of a server without a host", _without_host, _free),
    DiscrepancyKind("instance_without_allocation", "Server without an allocation", _missing, _claim, Severity.CRITICAL),
    DiscrepancyKind("allocation_on_wrong_host", "Allocation on another host", _elsewhere, severity=Severity.CRITICAL),
    DiscrepancyKind("usage_miscounted", "Usage doesn't match the sum of allocations", _miscounted, _count_again),
)
