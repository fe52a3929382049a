"""Allocations: claims that are granted all or none, and their release."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F

from conductor.core.errors import ConcurrentUpdate
from conductor.core.placement.forest import SHARES
from conductor.db.transactions import bare_tx, write_tx
from conductor.placement import statements
from conductor.placement.changes import ALIAS, chunks, touch
from conductor.placement.models import Allocation, Consumer, ProviderInventory, ResourceProvider

INSTANCE = "INSTANCE"
MIGRATION = "MIGRATION"


@dataclass(frozen=True, slots=True)
class Claim:
    """Resources that one consumer requests of one provider, by class. Several claims of a consumer are of one tree."""

    consumer_uuid: str
    provider_uuid: str
    resources: Mapping[str, int]
    project_id: str
    user_id: str
    consumer_type: str = INSTANCE


class ProviderFull(ConcurrentUpdate):
    """The resource provider has not enough left."""


class ConsumerHolds(ConcurrentUpdate):
    """The consumer holds something else already."""


def claim(wanted: Claim) -> None:
    """Grant one claim, as `claim_many` does."""
    claim_many([wanted])


def claim_many(claims: Sequence[Claim]) -> None:
    """Grant all claims in one transaction, or none.

    The amounts must fit; other changes in the meantime do not matter. A consumer that holds exactly the claimed amounts
    already is not changed. A consumer may claim of several providers of a tree, and of those that share.

    Raises:
        ProviderFull: with `provider_uuid` and `resource_class` in its details.
        ConsumerHolds: with `consumer_uuid` in its details.
    """
    if not claims:
        return
    try:
        grant_fresh(claims)
    except NotFresh:
        _claim_with_care(claims)


class NotFresh(Exception):
    """The fast path does not apply. The transaction must roll back; the slow path finds out why."""


class _RequestedSum(NamedTuple):
    """Requests of one class of one provider: their total, smallest and largest amount, and greatest common divisor."""

    amount: int
    least: int
    most: int
    divisor: int

    def plus(self, amount: int) -> _RequestedSum:
        return _RequestedSum(
            self.amount + amount, min(self.least, amount), max(self.most, amount), math.gcd(self.divisor, amount)
        )


def grant_fresh(claims: Sequence[Claim]) -> None:
    """Grant all claims in one transaction, or none, on the fast path. Raises NotFresh.

    It is for consumers without allocations and providers with enough room, as nearly all claims are.
    """
    sums: dict[tuple[str, str], _RequestedSum] = {}
    for claim in claims:
        for kind, amount in claim.resources.items():
            key = claim.provider_uuid, kind
            known = sums.get(key)
            sums[key] = known.plus(amount) if known else _RequestedSum(amount, amount, amount, amount)
    owners = {claim.consumer_uuid: claim for claim in claims}
    if len(owners) < len(claims):
        raise NotFresh  # several parts of a tree, or duplicates
    connection = connections[ALIAS]
    is_near = connection.vendor == "sqlite"
    with bare_tx(ALIAS) if is_near else write_tx(ALIAS):
        (_write_step_by_step if is_near else _write_at_once)(connection, claims, sums)


def _write_step_by_step(
    connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _RequestedSum]
) -> None:
    """Write with several statements, for an in-process database: statements are cheap there, and writers run alone."""
    uuids = {claim.provider_uuid: _digits(claim.provider_uuid) for claim in claims}
    ids = statements.provider_ids(connection, list(uuids.values()))
    _require_all(uuids, ids)
    providers = {uuid: ids[text] for uuid, text in uuids.items()}
    wanted = [
        (of.amount, providers[uuid], kind, of.amount, of.least, of.most, of.divisor)
        for (uuid, kind), of in sums.items()
    ]
    if statements.use_inventories(connection, wanted) < len(wanted):
        raise NotFresh
    owners = [(_digits(one.consumer_uuid), one.project_id, one.user_id, one.consumer_type) for one in claims]
    consumers = statements.create_consumers(connection, owners)
    _require_all(owners, consumers)
    amounts = [
        (consumers[owner[0]], providers[claim.provider_uuid], kind, amount)
        for claim, owner in zip(claims, owners, strict=True)
        for kind, amount in claim.resources.items()
    ]
    statements.insert_each_allocation(connection, amounts)
    number = statements.next_change_number(connection)
    if number is None:
        raise NotFresh
    statements.touch_listed_providers(connection, list(providers.values()), number)


def _digits(uuid: str) -> str:
    """Return a uuid as SQLite stores it; a `UUID` in between would take a tenth of the time of a claim."""
    return uuid.replace("-", "").lower()


def _require_all(wanted: Any, found: Any) -> None:
    if len(found) < len(wanted):
        raise NotFresh


def _write_at_once(
    connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _RequestedSum]
) -> None:
    providers = list({claim.provider_uuid: None for claim in claims})
    parts = [
        (claim.consumer_uuid, claim.provider_uuid, kind, amount)
        for claim in claims
        for kind, amount in claim.resources.items()
    ]
    owners = [(one.consumer_uuid, one.project_id, one.user_id, one.consumer_type) for one in claims]
    uses = [(*key, *of) for key, of in sums.items()]
    if statements.claim(connection, providers, uses, owners, parts) < len(providers):
        raise NotFresh


def _claim_with_care(claims: Sequence[Claim]) -> None:
    """Grant claims on the slow path, which reads before it writes: for existing allocations, and for precise errors."""
    with write_tx(ALIAS):
        # Rows are locked in the order of their ids, so that concurrent claims never deadlock.
        providers = _locked_providers({claim.provider_uuid for claim in claims})
        _refuse_unmanaged(claims)
        fresh = _not_yet_held(claims)
        _take(fresh, providers)
        _record(fresh, providers)
        touch({providers[claim.provider_uuid] for claim in fresh})


def release(consumer_uuids: Iterable[UUID | str]) -> int:
    """Release all allocations of these consumers. Return how many consumers had any. Idempotent."""
    uuids = [str(uuid) for uuid in consumer_uuids]
    if not uuids:
        return 0
    released = 0
    with write_tx(ALIAS):
        for part in chunks(uuids):
            released += release_some(part)
    return released


def move(from_consumer: UUID | str, to_consumer: UUID | str, to_type: str = INSTANCE) -> bool:
    """Move all allocations of a consumer to another one. False when there are none, or they were moved before.

    Raises ConsumerHolds when the other consumer has allocations already, as two sets are never merged.
    """
    with write_tx(ALIAS):
        if not Consumer.objects.filter(uuid=from_consumer).exists():
            return False
        if Consumer.objects.filter(uuid=to_consumer).exists():
            raise _holds(str(to_consumer))
        moved = Consumer.objects.filter(uuid=from_consumer)
        return bool(moved.update(uuid=to_consumer, generation=F("generation") + 1, consumer_type=to_type))


def shrink(consumer_uuid: UUID | str, provider_uuid: UUID | str, by: Mapping[str, int]) -> None:
    """Release a part of the allocations, at most what the consumer holds. The consumer stays, even with nothing
    left.
    """
    with write_tx(ALIAS):
        provider = ResourceProvider.objects.select_for_update().filter(uuid=provider_uuid).first()
        rows = Allocation.objects.filter(consumer__uuid=consumer_uuid, provider=provider)
        for row in rows.filter(resource_class__in=list(by)):
            less = min(by[row.resource_class], row.amount)
            ProviderInventory.objects.filter(provider=provider, resource_class=row.resource_class).update(
                used=F("used") - less
            )
            if row.amount == less:
                row.delete()
            else:
                Allocation.objects.filter(pk=row.pk).update(amount=F("amount") - less)
        if provider is not None:
            touch({provider.pk})


def is_there(consumer_uuid: UUID | str) -> bool:
    """Whether the consumer is known: it holds something, or held it until `shrink` took the last of it."""
    return Consumer.objects.filter(uuid=consumer_uuid).exists()


def held_by(consumer_uuid: UUID | str) -> dict[str, dict[str, int]]:
    """Return amounts by resource class, by provider uuid."""
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    rows = Allocation.objects.filter(consumer__uuid=consumer_uuid)
    for provider, kind, amount in rows.values_list("provider__uuid", "resource_class", "amount"):
        held[str(provider)][kind] = amount
    return dict(held)


def newest_holder(provider_uuid: UUID | str, resource_class: str) -> str:
    """Return the last consumer that got an allocation of the class at the provider; empty where there is none."""
    rows = Allocation.objects.filter(provider__uuid=provider_uuid, resource_class=resource_class)
    newest = rows.order_by("-pk").values_list("consumer__uuid", flat=True).first()
    return str(newest or "")


def hold_providers(uuids: Iterable[str]) -> None:
    """Lock providers until the transaction ends, in order. Needed before several claims in it, which then never
    deadlock.
    """
    if connections[ALIAS].vendor != "sqlite":  # whose writers are exclusive from the start
        with suppress(ProviderFull):
            _locked_providers(set(uuids))


def _locked_providers(uuids: set[str]) -> dict[str, int]:
    """Lock providers. Return uuid → row id."""
    ids: dict[str, int] = {}
    for part in chunks(sorted(uuids)):
        rows = ResourceProvider.objects.filter(uuid__in=part).order_by("pk").select_for_update()
        ids |= {str(uuid): pk for uuid, pk in rows.values_list("uuid", "pk")}
    for uuid in sorted(uuids - ids.keys()):
        raise ProviderFull(f"Resource provider {uuid} is gone.", provider_uuid=uuid, resource_class="")
    return ids


def _not_yet_held(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of consumers without allocations. Raises ConsumerHolds."""
    held: dict[str, dict[tuple[str, str], int]] = {}
    for part in chunks([claim.consumer_uuid for claim in claims]):
        known_uuids = list(Consumer.objects.filter(uuid__in=part).values_list("uuid", flat=True))
        if not known_uuids:  # the typical case
            continue
        held |= {str(uuid): {} for uuid in known_uuids}
        rows = Allocation.objects.filter(consumer__uuid__in=part)
        for consumer, provider, kind, amount in rows.values_list(
            "consumer__uuid", "provider__uuid", "resource_class", "amount"
        ):
            held[str(consumer)][str(provider), kind] = amount
    wanted: defaultdict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    fresh: dict[tuple[str, str], Claim] = {}
    for claim in claims:
        if fresh.setdefault((claim.consumer_uuid, claim.provider_uuid), claim) != claim:
            raise _holds(claim.consumer_uuid)
        wanted[claim.consumer_uuid] |= {(claim.provider_uuid, kind): of for kind, of in claim.resources.items()}
    for uuid, amounts in wanted.items():
        if held.get(uuid, amounts) != amounts:
            raise _holds(uuid)
    return [claim for claim in fresh.values() if claim.consumer_uuid not in held]


def _refuse_unmanaged(claims: Sequence[Claim]) -> None:
    """Raise ConsumerHolds unless each consumer's claims are of one tree, or of providers that share."""
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for claim in claims:
        parts[claim.consumer_uuid].add(claim.provider_uuid)
    several = {uuid: providers for uuid, providers in parts.items() if len(providers) > 1}
    if not several:
        return
    roots: dict[str, int] = {}
    for part in chunks(sorted({provider for providers in several.values() for provider in providers})):
        rows = ResourceProvider.objects.filter(uuid__in=part).values_list("uuid", "pk", "root_id", "traits")
        roots |= {str(uuid): root or pk for uuid, pk, root, names in rows if SHARES not in names}
    for uuid, providers in several.items():
        if len({roots[provider] for provider in providers if provider in roots}) > 1:
            raise _holds(uuid)


def _holds(consumer_uuid: str) -> ConsumerHolds:
    return ConsumerHolds(f"Consumer {consumer_uuid} holds something else already.", consumer_uuid=consumer_uuid)


def _take(claims: Sequence[Claim], providers: Mapping[str, int]) -> None:
    """Raise `used` where the amounts fit. Raises ProviderFull where they do not, and the transaction rolls back."""
    wanted: Counter[tuple[int, str]] = Counter()
    for claim in claims:
        for kind, amount in claim.resources.items():
            wanted[providers[claim.provider_uuid], kind] += amount
    rows: dict[tuple[int, str], _InventoryCapacity] = {}
    for part in chunks(sorted({provider for provider, _ in wanted})):
        found = ProviderInventory.objects.filter(provider_id__in=part).order_by("pk").select_for_update()
        rows |= {
            (row[0], row[1]): _InventoryCapacity(*row[2:])
            for row in found.values_list("provider_id", "resource_class", *ROOM)
        }
    for claim in claims:
        for kind, amount in claim.resources.items():
            if not _suits(rows.get((providers[claim.provider_uuid], kind)), amount):
                raise _full(claim.provider_uuid, kind)
    uuids = {pk: uuid for uuid, pk in providers.items()}
    for (provider, kind), amount in wanted.items():
        row = rows[provider, kind]
        if row.used + amount > (row.total - row.reserved) * row.allocation_ratio:
            raise _full(uuids[provider], kind)
    raise_used({rows[key].pk: amount for key, amount in wanted.items()})


class _InventoryCapacity(NamedTuple):
    """The fields of an inventory that are read. Models would cost more than all the rest of a claim."""

    pk: int
    total: int
    reserved: int
    allocation_ratio: float
    used: int
    min_unit: int
    max_unit: int
    step_size: int


ROOM = _InventoryCapacity._fields


def _suits(row: _InventoryCapacity | None, amount: int) -> bool:
    return row is not None and row.min_unit <= amount <= row.max_unit and not amount % row.step_size


def _full(provider_uuid: str, kind: str) -> ProviderFull:
    return ProviderFull(
        f"Resource provider {provider_uuid} has not enough {kind} left.",
        provider_uuid=provider_uuid,
        resource_class=kind,
    )


def raise_used(amounts: Mapping[int, int]) -> None:
    """Add to `used` of inventories by id: one statement per distinct amount, as equal claims have few."""
    by_amount: defaultdict[int, list[int]] = defaultdict(list)
    for pk, amount in amounts.items():
        by_amount[amount].append(pk)
    for amount, pks in by_amount.items():
        for part in chunks(pks):
            ProviderInventory.objects.filter(pk__in=part).update(used=F("used") + amount)


def _record(claims: Sequence[Claim], providers: Mapping[str, int]) -> None:
    owners = {claim.consumer_uuid: claim for claim in claims}
    rows = [
        Consumer(
            uuid=uuid,
            project_id=owner.project_id,
            user_id=owner.user_id,
            consumer_type=owner.consumer_type,
            generation=1,
        )
        for uuid, owner in owners.items()
    ]
    try:
        made = Consumer.objects.bulk_create(rows, batch_size=CHUNK_OF_ROWS)
    except IntegrityError as error:  # another writer created one of them since the read
        raise _holds(", ".join(sorted(owners))) from error
    consumers = dict(zip(owners, made, strict=True))
    amounts = [
        (consumers[claim.consumer_uuid].pk, providers[claim.provider_uuid], kind, amount)
        for claim in claims
        for kind, amount in claim.resources.items()
    ]
    for start in range(0, len(amounts), CHUNK_OF_ROWS):
        statements.insert_allocations(connections[ALIAS], amounts[start : start + CHUNK_OF_ROWS])


CHUNK_OF_ROWS = 200


def hold_consumers(uuids: list[str]) -> list[Consumer]:
    """Lock the consumers' rows, before those of providers, so that their allocations stay as they are."""
    return list(Consumer.objects.filter(uuid__in=uuids).order_by("pk").select_for_update())


def release_some(uuids: Sequence[str]) -> int:
    """Release all allocations of these consumers, as many as fit one statement. Return how many consumers existed.

    Inside a write transaction. Rows are locked in the order of their ids, consumers before providers.
    """
    # Only the locked rows: a consumer created a moment later may belong to another writer, which waits for a provider.
    connection = connections[ALIAS]
    consumers = statements.lock_consumers(connection, uuids)
    if not consumers:
        return 0
    providers = statements.lock_providers_of(connection, consumers)
    statements.give_back(connection, consumers)
    statements.delete_consumers(connection, consumers)
    # A release invalidates no client's plan: clients of placement get the generation when they read.
    touch(providers, raises_generation=False)
    return len(consumers)
