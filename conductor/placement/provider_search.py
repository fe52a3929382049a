"""Search for providers by traits, resources and aggregates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Exists, ExpressionWrapper, F, FloatField, OuterRef, QuerySet, Value

from conductor.core.errors import Invalid
from conductor.placement import resource_classes, traits
from conductor.placement.models import ProviderAggregate, ProviderInventory, ProviderTrait, ResourceProvider
from conductor.placement.provider_rows import ProviderView, in_tree_of, root_id_of, view_of, with_places

AnyOf = Iterable[Collection[str]]


@dataclass(frozen=True, slots=True)
class _Query:
    """Conditions on a single provider."""

    member_of: AnyOf = ()
    forbidden_aggregates: Collection[str] = ()
    required: AnyOf = ()
    forbidden: Collection[str] = ()
    resources: Mapping[str, int] = field(default_factory=dict)


def search(
    *, name: str | None = None, uuid: UUID | str | None = None, in_tree: UUID | str | None = None, **criteria: object
) -> list[ProviderView]:
    """Return the providers that meet all conditions, each by itself, oldest first.

    `member_of` and `required` are sets of alternatives, one of which must hold; `forbidden_aggregates` and
    `forbidden` must not hold at all, `resources` must be free. Raises Invalid for unknown traits and resource classes.
    """
    requested = _Query(**criteria)  # type: ignore[arg-type]
    _refuse_unknown(requested)
    rows = ResourceProvider.objects.all()
    if name:
        rows = rows.filter(name=name)
    if uuid:
        rows = rows.filter(uuid=uuid)
    if in_tree:
        known = ResourceProvider.objects.filter(uuid=in_tree).first()
        if known is None:
            return []
        rows = rows.filter(in_tree_of(root_id_of(known)))
    return [view_of(row) for row in with_places(_alone(rows, requested)).order_by("pk")]


def giving(kind: str, amount: int) -> QuerySet[ProviderInventory]:
    """Select inventories that can give this amount of a resource class now."""
    capacity = ExpressionWrapper((F("total") - F("reserved")) * F("allocation_ratio"), FloatField())
    inventories = ProviderInventory.objects.annotate(capacity=capacity, rest=Value(amount) % F("step_size"))
    return inventories.filter(
        resource_class=kind,
        min_unit__lte=amount,
        max_unit__gte=amount,
        rest=0,
        capacity__gte=F("used") + amount,
    )


def _alone(rows: QuerySet[ResourceProvider], requested: _Query) -> QuerySet[ResourceProvider]:
    me = OuterRef("pk")
    for kind, amount in requested.resources.items():
        rows = rows.filter(Exists(giving(kind, amount).filter(provider=me)))
    for names in requested.required:
        rows = rows.filter(Exists(ProviderTrait.objects.filter(provider=me, name__in=list(names))))
    for uuids in requested.member_of:
        rows = rows.filter(Exists(ProviderAggregate.objects.filter(provider=me, aggregate_uuid__in=list(uuids))))
    if requested.forbidden:
        rows = rows.exclude(Exists(ProviderTrait.objects.filter(provider=me, name__in=list(requested.forbidden))))
    if requested.forbidden_aggregates:
        bad = ProviderAggregate.objects.filter(provider=me, aggregate_uuid__in=list(requested.forbidden_aggregates))
        rows = rows.exclude(Exists(bad))
    return rows


def _refuse_unknown(requested: _Query) -> None:
    wanted = {name for names in requested.required for name in names} | set(requested.forbidden)
    traits.refuse_unknown(wanted)
    resource_classes.refuse_unknown(requested.resources)
    for kind, amount in requested.resources.items():
        if amount < 1:
            raise Invalid(f"resources: at least 1 of {kind} can be asked for, not {amount}.", field="resources")
