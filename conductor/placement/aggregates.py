"""Aggregates of providers: their members can be selected by aggregate, and share resources with each other."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from conductor.db.transactions import write_tx
from conductor.placement.changes import ALIAS, touch
from conductor.placement.models import ProviderAggregate, ResourceProvider
from conductor.placement.provider_rows import found, held, uuids_of


def of_provider(provider_uuid: UUID | str) -> tuple[int, list[str]]:
    """Return generation and aggregates of a provider. Raises NotFound."""
    row = found(provider_uuid)
    return row.generation, _of(row)


def set_of_provider(
    provider_uuid: UUID | str, aggregates: Iterable[UUID | str], generation: int | None
) -> tuple[int, list[str]]:
    """Replace the provider's aggregates. A given `generation` must be its own, and rises; without one it stays.

    Raises NotFound, or ConcurrentUpdate.
    """
    wanted = uuids_of(aggregates)
    with write_tx(ALIAS):
        row = held(provider_uuid, generation)
        _write(row, wanted)
        touch([row.pk], raises_generation=generation is not None)
        row.refresh_from_db(fields=["generation"])
        return row.generation, wanted


def join(aggregate_uuid: UUID | str, provider_uuids: Iterable[UUID | str]) -> None:
    """Add providers to an aggregate; unknown ones and current members are skipped."""
    with write_tx(ALIAS):
        rows = ResourceProvider.objects.filter(uuid__in=list(provider_uuids))
        fresh = list(rows.exclude(aggregate_links__aggregate_uuid=aggregate_uuid).order_by("pk").select_for_update())
        ProviderAggregate.objects.bulk_create(
            [ProviderAggregate(provider=row, aggregate_uuid=aggregate_uuid) for row in fresh], ignore_conflicts=True
        )
        touch([row.pk for row in fresh])


def leave(aggregate_uuid: UUID | str, provider_uuids: Iterable[UUID | str]) -> None:
    """Remove providers from an aggregate; others are skipped."""
    with write_tx(ALIAS):
        rows = ResourceProvider.objects.filter(uuid__in=list(provider_uuids))
        ids = [row.pk for row in rows.order_by("pk").select_for_update()]
        links = ProviderAggregate.objects.filter(provider_id__in=ids, aggregate_uuid=aggregate_uuid)
        left = list(links.values_list("provider_id", flat=True))
        links.delete()
        touch(left)


def settle(provider_uuid: UUID | str, wanted: Iterable[UUID | str], among: Iterable[UUID | str]) -> None:
    """Set the provider's membership in the aggregates `among` to the `wanted` ones; other memberships stay."""
    links = ProviderAggregate.objects.filter(provider__uuid=provider_uuid)
    now, then = {str(uuid) for uuid in links.values_list("aggregate_uuid", flat=True)}, set(uuids_of(wanted))
    for name in sorted(then - now):
        join(name, [provider_uuid])
    for name in sorted((now & set(uuids_of(among))) - then):
        leave(name, [provider_uuid])


def _of(row: ResourceProvider) -> list[str]:
    return uuids_of(row.aggregate_links.values_list("aggregate_uuid", flat=True))


def _write(row: ResourceProvider, wanted: list[str]) -> None:
    row.aggregate_links.exclude(aggregate_uuid__in=wanted).delete()
    missing = set(wanted) - set(_of(row))
    ProviderAggregate.objects.bulk_create(
        [ProviderAggregate(provider=row, aggregate_uuid=name) for name in sorted(missing)]
    )
