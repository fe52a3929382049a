"""What providers have: amounts and traits, as their hosts report them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from conductor.core.compute_driver import Inventory
from conductor.core.errors import Conflict
from conductor.placement import models
from conductor.placement.models import ResourceProvider
from conductor.placement.providers import ALIAS, touch
from conductor.transactions import write_tx

NOTHING = Inventory(total=0)


def report(provider_uuid: UUID | str, name: str, inventory: Mapping[str, Inventory], traits: Iterable[str] = ()) -> int:
    """Make the provider have exactly this, and give its generation. Nothing is written where nothing changed.

    A class that is gone while somebody still holds some of it stays with a total of 0, so that nobody new gets any.
    Less than is in use is accepted: who has it keeps it. Raises Conflict when another provider has the name.
    """
    wanted_traits = sorted(set(traits))
    row = ResourceProvider.objects.filter(uuid=provider_uuid).first()
    if row is not None and _is_same(row, name, inventory, wanted_traits):
        return row.generation
    with write_tx(ALIAS):
        if ResourceProvider.objects.filter(name=name).exclude(uuid=provider_uuid).exists():
            raise Conflict(f"There is another resource provider named {name}.")
        row, _ = ResourceProvider.objects.get_or_create(uuid=provider_uuid, defaults={"name": name})
        _write(row, inventory)
        ResourceProvider.objects.filter(pk=row.pk).update(name=name, traits=wanted_traits)
        touch([row.pk])
        row.refresh_from_db(fields=["generation"])
    return row.generation


def _is_same(row: ResourceProvider, name: str, inventory: Mapping[str, Inventory], traits: list[str]) -> bool:
    if row.name != name or row.traits != traits:
        return False
    stored = {item.resource_class: _values_of(item) for item in row.inventories.all()}
    left = {kind: values for kind, values in stored.items() if kind in inventory or values != asdict(NOTHING)}
    return left == {kind: asdict(item) for kind, item in inventory.items()}


def _values_of(item: models.Inventory) -> dict[str, Any]:
    return {name: getattr(item, name) for name in asdict(NOTHING)}


def _write(row: ResourceProvider, inventory: Mapping[str, Inventory]) -> None:
    gone = row.inventories.exclude(resource_class__in=inventory)
    gone.filter(used=0).delete()
    gone.update(**asdict(NOTHING))
    for kind, item in inventory.items():
        models.Inventory.objects.update_or_create(provider=row, resource_class=kind, defaults=asdict(item))
