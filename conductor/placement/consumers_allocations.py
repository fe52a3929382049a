"""Allocations of consumers, read and replaced as a whole: the API of placement's clients, with generations."""

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
from conductor.db.transactions import one_at_a_time, retried, write_tx
from conductor.placement import allocations, codes, resource_classes
from conductor.placement.allocations import CHUNK_OF_ROWS
from conductor.placement.changes import ALIAS, touch
from conductor.placement.models import Allocation, Consumer, ProviderInventory, ResourceProvider
from conductor.placement.provider_rows import found

Key = tuple[int, str]  # provider's row id, resource class


class Unchecked(Enum):
    """Marker of writers that do not use consumer generations."""

    UNCHECKED = "unchecked"


UNCHECKED: Final = Unchecked.UNCHECKED


class ProviderAllocation(NamedTuple):
    """Amounts held of one provider, and its generation, which writers may omit."""

    generation: int
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """All that a consumer holds, by provider uuid.

    In a request, `generation` None requires a new consumer, a number must be the consumer's; without allocations, all
    are released.
    """

    consumer_uuid: str
    project_id: str = ""
    user_id: str = ""
    generation: int | Unchecked | None = UNCHECKED
    consumer_type: str | None = None
    allocations: Mapping[str, ProviderAllocation] = field(default_factory=dict)


def of_consumer(consumer_uuid: UUID | str) -> ConsumerAllocations:
    """Return a consumer's allocations; an unknown one has none, and no generation."""
    consumer = Consumer.objects.filter(uuid=consumer_uuid).first()
    if consumer is None:
        return ConsumerAllocations(str(consumer_uuid), generation=None)
    shares: dict[str, ProviderAllocation] = {}
    rows = Allocation.objects.filter(consumer=consumer).order_by("pk")
    fields = ("provider__uuid", "provider__generation", "resource_class", "amount")
    for provider, generation, kind, amount in rows.values_list(*fields):
        shares.setdefault(str(provider), ProviderAllocation(generation, {})).resources[kind] = amount  # type: ignore[index]
    return _shown(consumer, shares)


def of_provider(provider_uuid: UUID | str) -> tuple[int, list[ConsumerAllocations]]:
    """Return the generation of a provider, and each consumer's allocations of it. Raises NotFound."""
    row = found(provider_uuid)
    held: defaultdict[int, dict[str, int]] = defaultdict(dict)
    consumers: dict[int, Consumer] = {}
    for item in Allocation.objects.filter(provider=row).select_related("consumer").order_by("pk"):
        held[item.consumer_id][item.resource_class] = item.amount
        consumers[item.consumer_id] = item.consumer
    shown = [
        _shown(consumers[pk], {str(row.uuid): ProviderAllocation(row.generation, amounts)})
        for pk, amounts in held.items()
    ]
    return row.generation, shown


@retried
def put(requests: Sequence[ConsumerAllocations]) -> None:
    """Replace the allocations of these consumers, all in one transaction or none.

    A provider that is over its capacity accepts changes that do not increase its usage. Raises Invalid for unknown
    providers and resource classes, ConcurrentUpdate for a generation that is not the consumer's, Conflict for what
    does not fit.
    """
    if requests:
        with write_tx(ALIAS):
            replace_all(requests)


def delete(consumer_uuid: UUID | str) -> None:
    """Release a consumer's allocations, whatever its generation. Raises NotFound when it has none."""
    if not allocations.release([consumer_uuid]):
        raise NotFound(f"No allocations for consumer {consumer_uuid} to delete were found.")


def replace_all(requests: Sequence[ConsumerAllocations]) -> None:
    """Do the work of `put`, inside a write transaction of the caller."""
    uuids = sorted({requested.consumer_uuid for requested in requests})
    _refuse_odd(requests, uuids)
    one_at_a_time(ALIAS, *(f"placement: consumer {uuid}" for uuid in uuids))
    consumers = {str(row.uuid): row for row in allocations.hold_consumers(uuids)}
    for requested in requests:
        _check_generation(requested, consumers.get(requested.consumer_uuid))
    providers = _locked_providers(requests, {pk for pk, _ in _held(uuids)})
    held = _held(uuids)  # locked: no writer moves or shrinks them now
    wanted = _taken(requests, providers, held)
    Allocation.objects.filter(consumer__uuid__in=uuids).delete()
    _write(requests, consumers, providers)
    touch({*(pk for pk, _ in held), *(pk for pk, _ in wanted)})


def _shown(consumer: Consumer, shares: Mapping[str, ProviderAllocation]) -> ConsumerAllocations:
    return ConsumerAllocations(
        str(consumer.uuid),
        consumer.project_id,
        consumer.user_id,
        consumer.generation,
        consumer.consumer_type,
        shares,
    )


def _refuse_odd(requests: Sequence[ConsumerAllocations], uuids: list[str]) -> None:
    if len(uuids) < len(requests):
        raise Invalid("A consumer may be named only once.", field="allocations")
    for requested in requests:
        for provider, share in requested.allocations.items():
            for kind, amount in share.resources.items():
                if amount < 1:
                    raise Invalid(
                        f"{amount} {kind} of resource provider {provider} cannot be held: at least 1.",
                        field=f"allocations.{provider}.resources.{kind}",
                    )
    resource_classes.refuse_unknown(
        {kind for requested in requests for share in requested.allocations.values() for kind in share.resources}
    )


def _locked_providers(requests: Sequence[ConsumerAllocations], given_up: set[int]) -> dict[str, int]:
    """Lock all providers concerned, in the order in which claims lock them. Return uuid → row id.

    Raises Invalid for unknown ones.
    """
    named = {provider for requested in requests for provider in requested.allocations}
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


def _check_generation(requested: ConsumerAllocations, known: Consumer | None) -> None:
    if requested.generation is UNCHECKED or requested.generation == (known.generation if known else None):
        return
    raise ConcurrentUpdate(
        f"consumer generation conflict: consumer {requested.consumer_uuid} is expected at {requested.generation}, "
        f"but is at {known.generation if known else None}.",
        code=codes.CONCURRENT_UPDATE,
    )


def _taken(requests: Sequence[ConsumerAllocations], providers: Mapping[str, int], held: Counter[Key]) -> Counter[Key]:
    """Change `used` from the current to the requested amounts, and return these. Raises Conflict if they do not fit."""
    wanted: Counter[Key] = Counter()
    concerned = {*(pk for pk, _ in held), *providers.values()}
    rows: dict[Key, ProviderInventory] = {}
    for row in ProviderInventory.objects.filter(provider_id__in=concerned).order_by("pk").select_for_update():
        rows[row.provider_id, row.resource_class] = row
    for requested in requests:
        for provider, share in requested.allocations.items():
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


def _amount(row: ProviderInventory) -> Amount:
    return Amount(row.total, row.reserved, row.min_unit, row.max_unit, row.step_size, row.allocation_ratio, row.used)


def _check_units(row: ProviderInventory | None, provider: str, kind: str, amount: int) -> None:
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
    requests: Sequence[ConsumerAllocations], consumers: Mapping[str, Consumer], providers: Mapping[str, int]
) -> None:
    """Write consumers and their new allocations; those without any are deleted."""
    Consumer.objects.filter(
        uuid__in=[requested.consumer_uuid for requested in requests if not requested.allocations]
    ).delete()
    rows = []
    for requested in requests:
        if requested.allocations:
            consumer = _written(requested, consumers.get(requested.consumer_uuid))
            consumer.hardware_claims.exclude(provider__uuid__in=list(requested.allocations)).delete()
            for provider, share in requested.allocations.items():
                for kind, amount in share.resources.items():
                    rows.append(
                        Allocation(
                            consumer=consumer, provider_id=providers[provider], resource_class=kind, amount=amount
                        )
                    )
    Allocation.objects.bulk_create(rows, batch_size=CHUNK_OF_ROWS)


def _written(requested: ConsumerAllocations, known: Consumer | None) -> Consumer:
    values = {"project_id": requested.project_id, "user_id": requested.user_id}
    if requested.consumer_type:
        values["consumer_type"] = requested.consumer_type
    if known is None:
        try:
            return Consumer.objects.create(uuid=requested.consumer_uuid, generation=1, **values)
        except IntegrityError as error:  # a claim created it since the read
            raise ConcurrentUpdate(
                f"consumer generation conflict: consumer {requested.consumer_uuid} was made by another meanwhile.",
                code=codes.CONCURRENT_UPDATE,
            ) from error
    Consumer.objects.filter(pk=known.pk).update(generation=F("generation") + 1, **values)
    return known
