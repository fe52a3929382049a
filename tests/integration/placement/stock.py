"""Providers and names for tests of placement."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, uuid5

from conductor.core.placement.amounts import Amount
from conductor.placement import aggregates, inventories, models, providers, traits
from conductor.placement.consumers_allocations import UNCHECKED, ConsumerAllocations, ProviderAllocation, Unchecked

SHOP, LAB, ANA, BO = "5" * 32, "1" * 32, "a" * 32, "b" * 32


def uuid_of(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def make(name: str, under: str = "", has: str = "", of: str = "", **amounts: int | Amount) -> str:
    """Return a provider below `under`, with traits, in aggregates."""
    uuid = providers.create(name, uuid_of(name), uuid_of(under) if under else None).uuid
    for trait in has.split():
        traits.bring([trait])
    stock = {kind: amount if isinstance(amount, Amount) else Amount(amount) for kind, amount in amounts.items()}
    if stock:
        inventories.replace(uuid, stock, providers.view(uuid).generation)
    if has:
        traits.set_of_provider(uuid, has.split(), None)
    if of:
        aggregates.set_of_provider(uuid, [uuid_of(one) for one in of.split()], None)
    return uuid


def requested(
    consumer: str, generation: int | Unchecked | None = UNCHECKED, **held: dict[str, int]
) -> ConsumerAllocations:
    """Return the allocations of a consumer of ana's in shop, by name of provider."""
    shares = {uuid_of(name): ProviderAllocation(0, amounts) for name, amounts in held.items()}
    return ConsumerAllocations(uuid_of(consumer), SHOP, ANA, generation, "INSTANCE", shares)


def generation(name: str) -> int:
    return providers.view(uuid_of(name)).generation


def used() -> dict[tuple[str, str], int]:
    """Return the usage in the inventories; it must equal the sum of the allocations."""
    rows = models.ProviderInventory.objects.exclude(used=0).values_list("provider__name", "resource_class", "used")
    counted = {(name, kind): amount for name, kind, amount in rows}
    sums: dict[tuple[str, str], int] = {}
    held = models.Allocation.objects.values_list("provider__name", "resource_class", "amount")
    for name, kind, amount in held:
        sums[name, kind] = sums.get((name, kind), 0) + amount
    assert counted == sums
    return counted


def everything() -> list[object]:
    """Return all rows of placement, which a refusal must leave unchanged."""
    kinds = (
        models.ResourceProvider,
        models.ProviderInventory,
        models.Allocation,
        models.Consumer,
        models.ProviderTrait,
        models.ProviderAggregate,
        models.ResourceClass,
        models.Trait,
        models.ChangeCounter,
    )
    return [sorted(map(str, kind.objects.values_list())) for kind in kinds]
