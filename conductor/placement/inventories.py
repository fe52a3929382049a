"""Inventories and traits of providers, as their hosts report them or clients of placement write them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from conductor.core.compute_driver import Inventory
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.placement.amounts import Amount
from conductor.db.transactions import write_tx
from conductor.placement import codes, models, resource_classes, traits
from conductor.placement.changes import ALIAS, touch
from conductor.placement.models import ResourceProvider
from conductor.placement.provider_rows import found, held

log = logging.getLogger(__name__)

NOTHING = Inventory(total=0)
WRITABLE = tuple(asdict(NOTHING))
ProviderInventory = tuple[int, dict[str, Amount]]  # generation, amounts by resource class


def report(provider_uuid: UUID | str, name: str, inventory: Mapping[str, Inventory], has: Iterable[str] = ()) -> int:
    """Set the provider's inventory and traits, and return its generation. Nothing is written where nothing changed.

    A removed class that is still in use stays with a total of 0, so that no new allocation gets any.
    Traits that others than the host gave to the provider stay. Less than is in use is accepted: allocations stay.
    Raises Conflict when another provider has the name.
    """
    wanted_traits = sorted(set(has))
    row = ResourceProvider.objects.filter(uuid=provider_uuid).first()
    if row is not None and row.root_id and is_same(row, name, inventory, wanted_traits):
        return row.generation
    with write_tx(ALIAS):
        traits.bring(wanted_traits)
        resource_classes.bring(inventory)
        row = _held_or_new(provider_uuid, name)
        _report_amounts(row, inventory)
        traits.write(row, {*wanted_traits, *row.traits} - (set(row.reported_traits) - set(wanted_traits)))
        ResourceProvider.objects.filter(pk=row.pk).update(
            name=name, reported_traits=wanted_traits, root_id=row.root_id or row.pk
        )
        touch([row.pk])
        row.refresh_from_db(fields=["generation"])
    return row.generation


def all_of(provider_uuid: UUID | str) -> ProviderInventory:
    """Return the provider's generation and inventory. Raises NotFound."""
    row = found(provider_uuid)
    return row.generation, _amounts(row)


def replace(provider_uuid: UUID | str, amounts: Mapping[str, Amount], generation: int) -> ProviderInventory:
    """Replace the provider's inventory. Less of a class than is in use is accepted; removing the class is not.

    Raises NotFound, Invalid, ConcurrentUpdate when `generation` is not the provider's, Conflict for a class in use.
    """
    with write_tx(ALIAS):
        row = held(provider_uuid, generation)
        write(row, amounts)
        drop(row, _amounts(row).keys() - amounts.keys())
        return _written(row)


def add(provider_uuid: UUID | str, kind: str, amount: Amount, generation: int) -> ProviderInventory:
    """Add a class to the provider. Raises Conflict when it has the class, and what `replace` raises."""
    with write_tx(ALIAS):
        row = held(provider_uuid, generation)
        if row.inventories.filter(resource_class=kind).exists():
            raise Conflict(f"Resource provider {provider_uuid} has inventory of {kind} already.")
        write(row, {kind: amount})
        return _written(row)


def put(provider_uuid: UUID | str, kind: str, amount: Amount, generation: int) -> ProviderInventory:
    """Update a class of the provider. Raises Invalid when it does not have it, and what `replace` raises."""
    with write_tx(ALIAS):
        row = held(provider_uuid, generation)
        resource_classes.refuse_unknown([kind])
        if not row.inventories.filter(resource_class=kind).exists():
            raise Invalid(f"Resource provider {provider_uuid} has no inventory of {kind}.", field="resource_class")
        write(row, {kind: amount})
        return _written(row)


def delete_one(provider_uuid: UUID | str, kind: str) -> ProviderInventory:
    """Remove a class. Raises NotFound, or Conflict while it is in use."""
    with write_tx(ALIAS):
        row = held(provider_uuid, None)
        if not row.inventories.filter(resource_class=kind).exists():
            raise NotFound(f"Resource provider {provider_uuid} has no inventory of {kind[:255]}.")
        drop(row, [kind])
        return _written(row)


def delete_all(provider_uuid: UUID | str) -> ProviderInventory:
    """Remove all classes. Raises NotFound, or Conflict while any is in use."""
    with write_tx(ALIAS):
        row = held(provider_uuid, None)
        drop(row, _amounts(row))
        return _written(row)


def write(row: ResourceProvider, amounts: Mapping[str, Amount]) -> None:
    """Write these classes of a provider; inside a write transaction that locks its row. Raises Invalid."""
    resource_classes.stay(amounts)
    for kind, amount in amounts.items():
        _refuse_odd(kind, amount)
        values = {name: getattr(amount, name) for name in WRITABLE}
        kept, _ = models.ProviderInventory.objects.update_or_create(provider=row, resource_class=kind, defaults=values)
        if kept.used > amount.capacity:
            log.warning("provider over capacity: provider=%s class=%s used=%s", row.uuid, kind, kept.used)


def drop(row: ResourceProvider, kinds: Iterable[str]) -> None:
    """Remove classes; inside a write transaction that locks the row. Raises Conflict while they are in use."""
    gone = row.inventories.filter(resource_class__in=list(kinds))
    held_kinds = row.allocations.values("resource_class")
    in_use = sorted(gone.filter(resource_class__in=held_kinds).values_list("resource_class", flat=True))
    if in_use:
        raise Conflict(
            f"Inventory of {', '.join(in_use)} at resource provider {row.uuid} is in use.", code=codes.INVENTORY_IN_USE
        )
    gone.delete()


def _refuse_odd(kind: str, amount: Amount) -> None:
    if not 0 <= amount.reserved <= amount.total:
        raise Invalid(
            f"{kind}: reserved must be between 0 and the total of {amount.total}, not {amount.reserved}.",
            field="reserved",
        )
    for name in ("min_unit", "max_unit", "step_size"):
        if getattr(amount, name) < 1:
            raise Invalid(f"{kind}: {name} must be at least 1, not {getattr(amount, name)}.", field=name)
    if not 0 < amount.allocation_ratio < float("inf"):
        raise Invalid(f"{kind}: allocation_ratio must be above 0.", field="allocation_ratio")


def _amounts(row: ResourceProvider) -> dict[str, Amount]:
    rows = row.inventories.order_by("pk")
    return {item.resource_class: Amount(**_values_of(item), used=item.used) for item in rows}


def _written(row: ResourceProvider) -> ProviderInventory:
    touch([row.pk])
    row.refresh_from_db(fields=["generation"])
    return row.generation, _amounts(row)


def is_same(row: ResourceProvider, name: str, inventory: Mapping[str, Inventory], names: list[str]) -> bool:
    """Whether a provider has the reported name, inventory and traits (`names`, sorted)."""
    if row.name != name or row.reported_traits != names or not set(names) <= set(row.traits):
        return False
    stored = {item.resource_class: _values_of(item) for item in row.inventories.all()}
    left = {kind: values for kind, values in stored.items() if kind in inventory or values != _values_of(NOTHING)}
    return left == {kind: _values_of(item) for kind, item in inventory.items()}


def _held_or_new(provider_uuid: UUID | str, name: str) -> ResourceProvider:
    """Return the row, locked; a new one where there is none. Raises Conflict when another provider has the name.

    Other transactions may create and remove the row meanwhile: after an insert that does nothing it is looked up again.
    """
    rows = ResourceProvider.objects.select_for_update()
    while True:
        if ResourceProvider.objects.filter(name=name).exclude(uuid=provider_uuid).exists():
            raise Conflict(f"There is another resource provider named {name}.")
        row = rows.filter(uuid=provider_uuid).first()
        if row is not None:
            return row
        ResourceProvider.objects.bulk_create([ResourceProvider(uuid=provider_uuid, name=name)], ignore_conflicts=True)


def _values_of(item: models.ProviderInventory | Inventory) -> dict[str, Any]:
    return {name: getattr(item, name) for name in WRITABLE}


def _report_amounts(row: ResourceProvider, inventory: Mapping[str, Inventory]) -> None:
    gone = row.inventories.exclude(resource_class__in=inventory)
    gone.filter(used=0).delete()
    gone.update(**asdict(NOTHING))
    for kind, item in inventory.items():
        models.ProviderInventory.objects.update_or_create(provider=row, resource_class=kind, defaults=asdict(item))
