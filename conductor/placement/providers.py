"""Resource providers, and what changed about them since a follower last looked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from django.db.models import Count, F

from conductor.core.errors import Conflict, NotFound
from conductor.core.placement.amounts import Amount
from conductor.placement.models import Allocation, ChangeCounter, Inventory, ResourceProvider
from conductor.transactions import write_tx

ALIAS = "default"
COUNTER = 1
T = TypeVar("T")
CHUNK = 500  # values in one statement: databases bound how many there may be


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider as it stands: amounts by resource class, and how many consumers hold something of it."""

    uuid: str
    name: str
    generation: int
    change_number: int
    traits: frozenset[str]
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    num_consumers: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """How far the changes have come: the newest number, and that of the newest removal, in an epoch of numbers."""

    epoch: str = ""
    number: int = 0
    removed_number: int = 0


def position() -> Position:
    """Where the changes are now: one row read, so that a follower who is up to date stops here."""
    row = ChangeCounter.objects.filter(pk=COUNTER).values_list("epoch", "number", "removed_number").first()
    return Position(str(row[0]), row[1], row[2]) if row else Position()


def changed_since(number: int) -> list[ProviderState]:
    """Providers that changed after change `number`; 0 gives all."""
    rows = ResourceProvider.objects.all() if not number else ResourceProvider.objects.filter(change_number__gt=number)
    return _states(list(rows))


def get(provider_uuid: UUID | str) -> ProviderState:
    """Raises NotFound."""
    row = ResourceProvider.objects.filter(uuid=provider_uuid).first()
    if row is None:
        raise NotFound(f"Resource provider {provider_uuid} could not be found.")
    return _states([row])[0]


def remove(provider_uuid: UUID | str) -> None:
    """Forget a provider; one that is gone already is no error. Raises Conflict while anybody holds something of it."""
    with write_tx(ALIAS):
        row = ResourceProvider.objects.select_for_update().filter(uuid=provider_uuid).first()
        if row is None:
            return
        if row.allocations.exists():
            raise Conflict(f"Resource provider {provider_uuid} has allocations.")
        row.delete()
        number = next_number()
        ChangeCounter.objects.filter(pk=COUNTER).update(removed_number=number)


def next_number() -> int:
    """The next change number; inside a write transaction, which holds the counter until it commits."""
    counter = ChangeCounter.objects.filter(pk=COUNTER)
    if not counter.update(number=F("number") + 1):
        ChangeCounter.objects.bulk_create([ChangeCounter(pk=COUNTER)], ignore_conflicts=True)
        counter.update(number=F("number") + 1)
    return counter.values_list("number", flat=True).get()


def touch(provider_ids: Iterable[int]) -> None:
    """These providers changed: a new generation each, one change number for all; inside a write transaction."""
    ids = list(provider_ids)
    if not ids:
        return
    number = next_number()
    for part in chunks(ids):
        ResourceProvider.objects.filter(pk__in=part).update(generation=F("generation") + 1, change_number=number)


def chunks(items: list[T]) -> list[list[T]]:
    """`items` in parts that fit one statement."""
    return [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]


def _states(rows: list[ResourceProvider]) -> list[ProviderState]:
    amounts: defaultdict[int, dict[str, Amount]] = defaultdict(dict)
    consumers: dict[int, int] = {}
    fields = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "used")
    for part in chunks([row.pk for row in rows]):
        inventories = Inventory.objects.filter(provider_id__in=part)
        for provider_id, name, *values in inventories.values_list("provider_id", "resource_class", *fields):
            amounts[provider_id][name] = Amount(*values)
        held = Allocation.objects.filter(provider_id__in=part).values_list("provider_id")
        consumers.update(held.annotate(count=Count("consumer_id", distinct=True)))
    return [
        ProviderState(
            uuid=str(row.uuid),
            name=row.name,
            generation=row.generation,
            change_number=row.change_number,
            traits=frozenset(row.traits),
            amounts=amounts[row.pk],
            num_consumers=consumers.get(row.pk, 0),
        )
        for row in rows
    ]
