"""Usage: sums of allocations."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, QuerySet, Sum

from conductor.placement.models import Allocation, ProviderInventory

ALL = "all"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TypeUsage:
    """Usage of all consumers of one type, and their number."""

    consumer_count: int
    resources: dict[str, int] = field(default_factory=dict)


def of_project(project_id: str, user_id: str | None = None, consumer_type: str | None = None) -> dict[str, int]:
    """Return amounts by resource class that a project's consumers hold; of one user or type only, where given."""
    rows = _of(project_id, user_id)
    if consumer_type is not None:
        rows = rows.filter(consumer__consumer_type=consumer_type)
    return _summed(rows)


def by_consumer_type(
    project_id: str, user_id: str | None = None, consumer_type: str | None = None
) -> dict[str, TypeUsage]:
    """Return usage by type of consumer. "all" combines all types; "unknown" are those without a type."""
    rows = _of(project_id, user_id)
    if consumer_type == ALL:
        return _together(ALL, rows)
    if consumer_type == UNKNOWN:
        return _together(UNKNOWN, rows.filter(consumer__consumer_type=None))
    if consumer_type is not None:
        rows = rows.filter(consumer__consumer_type=consumer_type)
    counts = dict(rows.values_list("consumer__consumer_type").annotate(count=_CONSUMERS).order_by())
    found = {name or UNKNOWN: TypeUsage(count) for name, count in counts.items()}
    sums = rows.values_list("consumer__consumer_type", "resource_class").annotate(amount=Sum("amount"))
    for name, kind, amount in sums.order_by("resource_class"):
        found[name or UNKNOWN].resources[kind] = amount
    return found


def of_provider(provider_uuid: UUID | str) -> dict[str, int]:
    """Return amounts by resource class that are allocated of a provider; 0 for unused classes of its inventory."""
    rows = ProviderInventory.objects.filter(provider__uuid=provider_uuid)
    return dict(rows.order_by("resource_class").values_list("resource_class", "used"))


_CONSUMERS = Count("consumer_id", distinct=True)


def _of(project_id: str, user_id: str | None) -> QuerySet[Allocation]:
    rows = Allocation.objects.filter(consumer__project_id=project_id)
    return rows.filter(consumer__user_id=user_id) if user_id is not None else rows


def _together(name: str, rows: QuerySet[Allocation]) -> dict[str, TypeUsage]:
    amounts = _summed(rows)
    if not amounts:
        return {}
    return {name: TypeUsage(rows.aggregate(count=_CONSUMERS)["count"], amounts)}


def _summed(rows: QuerySet[Allocation]) -> dict[str, int]:
    return dict(rows.values_list("resource_class").annotate(amount=Sum("amount")).order_by("resource_class"))
