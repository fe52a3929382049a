"""What consumers hold, read and replaced as a whole: the way of placement's clients, who name generations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, Q

from conductor.core.errors import ConcurrentUpdate, Conflict, Invalid, NotFound
from conductor.core.placement.amounts import Amount
from conductor.placement import allocations, codes, resource_classes
from conductor.placement.allocations import CHUNK_OF_ROWS
from conductor.placement.changes import ALIAS, touch
from conductor.placement.models import Allocation, Consumer, Inventory, ResourceProvider
from conductor.placement.provider_rows import found
from conductor.transactions import one_at_a_time, retried, write_tx

Key = tuple[int, str]  # provider's row id, resource class


class Unchecked(Enum):
    """For writers that know no generations of consumers."""

    UNCHECKED = "unchecked"


UNCHECKED: Final = Unchecked.UNCHECKED


class Share(NamedTuple):
    """What is held of one provider, and its generation; who writes need not give that."""

    generation: int
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """All that a consumer holds, by provider uuid.

    In a wish, `generation` None says that the consumer must be new, a number that it must be just that one's; and no
    allocations that it shall hold nothing.
    """

    consumer_uuid: str
    project_id: str = ""
    user_id: str = ""
    generation: int | Unchecked | None = UNCHECKED
    consumer_type: str | None = None
    allocations: Mapping[str, Share] = field(default_factory=dict)


def of_consumer(consumer_uuid: UUID | str) -> ConsumerAllocations:
    """What a consumer holds; one that is unknown holds nothing, and has no generation."""
    consumer = Consumer.objects.filter(uuid=consumer_uuid).first()
    if consumer is None:
        return ConsumerAllocations(str(consumer_uuid), generation=None)
    shares: dict[str, Share] = {}
    rows = Allocation.objects.filter(consumer=consumer).order_by("pk")
    fields = ("provider__uuid", "provider__generation", "resource_class", "amount")
    for provider, generation, kind, amount in rows.values_list(*fields):
        shares.setdefault(str(provider), Share(generation, {})).resources[kind] = amount  # type: ignore[index]
    return _shown(consumer, shares)


def of_provider(provider_uuid: UUID | str) -> tuple[int, list[ConsumerAllocations]]:
    """Generation of a provider, and what each consumer holds of it. Raises NotFound."""
    row = found(provider_uuid)
    held: defaultdict[int, dict[str, int]] = defaultdict(dict)
    consumers: dict[int, Consumer] = {}
    for item in Allocation.objects.filter(provider=row).select_related("consumer").order_by("pk"):
        held[item.consumer_id][item.resource_class] = item.amount
        consumers[item.consumer_id] = item.consumer
    shown = [_shown(consumers[pk], {str(row.uuid): Share(row.generation, amounts)}) for pk, amounts in held.items()]
    return row.generation, shown


@retried
def put(wished: Sequence[ConsumerAllocations]) -> None:
    """Replace what these consumers hold, all in one transaction or none.

    A provider that is over its capacity takes what does not make it worse. Raises Invalid for unknown providers and
    resource classes, ConcurrentUpdate for a generation that is not the consumer's, Conflict for what does not fit.
    """
    if wished:
        with write_tx(ALIAS):
            replace_all(wished)


def delete(consumer_uuid: UUID | str) -> None:
    """Give back all that a consumer holds, whatever its generation. Raises NotFound when it holds nothing."""
    if not allocations.release([consumer_uuid]):
        raise NotFound(f"No allocations for consumer {consumer_uuid} to delete were found.")


def replace_all(wished: Sequence[ConsumerAllocations]) -> None:
    """What `put` does, inside a write transaction of the caller."""
    uuids = sorted({wish.consumer_uuid for wish in wished})
    _refuse_odd(wished, uuids)
    one_at_a_time(ALIAS, *(f"placement: consumer {uuid}" for uuid in uuids))
    consumers = {str(row.uuid): row for row in allocations.hold_consumers(uuids)}
    for wish in wished:
        _check_generation(wish, consumers.get(wish.consumer_uuid))
    providers = _locked_providers(wished, {pk for pk, _ in _held(uuids)})
    held = _held(uuids)  # nobody moves it any more, nor shrinks it
    wanted = _taken(wished, providers, held)
    Allocation.objects.filter(consumer__uuid__in=uuids).delete()
    _write(wished, consumers, providers)
    touch({*(pk for pk, _ in held), *(pk for pk, _ in wanted)})


def _shown(consumer: Consumer, shares: Mapping[str, Share]) -> ConsumerAllocations:
    return ConsumerAllocations(
        str(consumer.uuid),
        consumer.project_id,
        consumer.user_id,
        consumer.generation,
        consumer.consumer_type,
        shares,
    )


def _refuse_odd(wished: Sequence[ConsumerAllocations], uuids: list[str]) -> None:
    if len(uuids) < len(wished):
        raise Invalid("A consumer may be named only once.", field="allocations")
    for wish in wished:
        for provider, share in wish.allocations.items():
            for kind, amount in share.resources.items():
                if amount < 1:
                    raise Invalid(
                        f"{amount} {kind} of resource provider {provider} cannot be held: at least 1.",
                        field=f"allocations.{provider}.resources.{kind}",
                    )
    resource_classes.refuse_unknown(
        {kind for wish in wished for share in wish.allocations.values() for kind in share.resources}
    )


def _locked_providers(wished: Sequence[ConsumerAllocations], given_up: set[int]) -> dict[str, int]:
    """Provider uuid → row id of all that are concerned, locked in the order in which claims lock them.

    Raises Invalid for those that nobody knows.
    """
    named = {provider for wish in wished for provider in wish.allocations}
    rows = ResourceProvider.objects.filter(Q(uuid__in=named) | Q(pk__in=given_up)).order_by("pk").select_for_update()
    ids = {str(uuid): pk for uuid, pk in rows.values_list("uuid", "pk")}
    for uuid in sorted(named - ids.keys()):
        raise Invalid(f"There is no resource provider {uuid} to allocate from.", field=f"allocations.{uuid}")
    return ids


def _held(uuids: Iterable[str]) -> Counter[Key]:
    held: Counter[Key] = Counter()
    rows = Allocation.objects.filter(consumer__uuid__in=list(uuids))
    for pk, kind, amount in rows.values_list("provider_id", "resource_class", "amount"):
        held[pk, kind] += amount
    return held


def _check_generation(wish: ConsumerAllocations, known: Consumer | None) -> None:
    if wish.generation is UNCHECKED or wish.generation == (known.generation if known else None):
        return
    raise ConcurrentUpdate(
        f"consumer generation conflict: consumer {wish.consumer_uuid} is expected at {wish.generation}, "
        f"but is at {known.generation if known else None}.",
        code=codes.CONCURRENT_UPDATE,
    )


def _taken(wished: Sequence[ConsumerAllocations], providers: Mapping[str, int], held: Counter[Key]) -> Counter[Key]:
    """Change `used` from what is held to what is wished, which is returned. Raises Conflict where that does not fit."""
    wanted: Counter[Key] = Counter()
    concerned = {*(pk for pk, _ in held), *providers.values()}
    rows: dict[Key, Inventory] = {}
    for row in Inventory.objects.filter(provider_id__in=concerned).order_by("pk").select_for_update():
        rows[row.provider_id, row.resource_class] = row
    for wish in wished:
        for provider, share in wish.allocations.items():
            for kind, amount in share.resources.items():
                _check_units(rows.get((providers[provider], kind)), provider, kind, amount)
                wanted[providers[provider], kind] += amount
    uuids = {pk: uuid for uuid, pk in providers.items()}
    for key, amount in wanted.items():
        after = rows[key].used - held[key] + amount
        if after > _amount(rows[key]).capacity and (after > rows[key].used or not rows[key].used):
            raise _refused(uuids[key[0]], key[1], "the amount would exceed the capacity")
    changes = {key: wanted[key] - held[key] for key in {*wanted, *held} if key in rows}
    allocations.raise_used({rows[key].pk: by for key, by in changes.items() if by})
    return wanted


def _amount(row: Inventory) -> Amount:
    return Amount(row.total, row.reserved, row.min_unit, row.max_unit, row.step_size, row.allocation_ratio, row.used)


def _check_units(row: Inventory | None, provider: str, kind: str, amount: int) -> None:
    if row is None:
        raise _refused(provider, kind, "it has no inventory of that")
    if not _amount(row).suits(amount):
        raise _refused(provider, kind, f"{amount} does not keep to its least, most or step")


def _refused(provider: str, kind: str, why: str) -> Conflict:
    return Conflict(
        f"Unable to allocate {kind} of resource provider {provider}: {why}.",
        provider_uuid=provider,
        resource_class=kind,
    )


def _write(
    wished: Sequence[ConsumerAllocations], consumers: Mapping[str, Consumer], providers: Mapping[str, int]
) -> None:
    """Consumers and what they hold now; those who hold nothing are forgotten."""
    Consumer.objects.filter(uuid__in=[wish.consumer_uuid for wish in wished if not wish.allocations]).delete()
    rows = []
    for wish in wished:
        if wish.allocations:
            consumer = _written(wish, consumers.get(wish.consumer_uuid))
            consumer.hardware_claims.exclude(provider__uuid__in=list(wish.allocations)).delete()
            for provider, share in wish.allocations.items():
                for kind, amount in share.resources.items():
                    rows.append(
                        Allocation(
                            consumer=consumer, provider_id=providers[provider], resource_class=kind, amount=amount
                        )
                    )
    Allocation.objects.bulk_create(rows, batch_size=CHUNK_OF_ROWS)


def _written(wish: ConsumerAllocations, known: Consumer | None) -> Consumer:
    values = {"project_id": wish.project_id, "user_id": wish.user_id}
    if wish.consumer_type:
        values["consumer_type"] = wish.consumer_type
    if known is None:
        try:
            return Consumer.objects.create(uuid=wish.consumer_uuid, generation=1, **values)
        except IntegrityError as error:  # a claim made it since we looked
            raise ConcurrentUpdate(
                f"consumer generation conflict: consumer {wish.consumer_uuid} was made by another meanwhile.",
                code=codes.CONCURRENT_UPDATE,
            ) from error
    Consumer.objects.filter(pk=known.pk).update(generation=F("generation") + 1, **values)
    return known
