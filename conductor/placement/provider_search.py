"""Finding providers by what they are, have and belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Exists, ExpressionWrapper, F, FloatField, OuterRef, QuerySet, Value

from conductor.core.errors import Invalid
from conductor.placement import resource_classes, traits
from conductor.placement.models import Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from conductor.placement.provider_rows import ProviderView, in_tree_of, root_id_of, view_of, with_places

AnyOf = Iterable[Collection[str]]


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a provider must be, all by itself."""

    member_of: AnyOf = ()
    forbidden_aggregates: Collection[str] = ()
    required: AnyOf = ()
    forbidden: Collection[str] = ()
    resources: Mapping[str, int] = field(default_factory=dict)


def search(
    *, name: str | None = None, uuid: UUID | str | None = None, in_tree: UUID | str | None = None, **wished: object
) -> list[ProviderView]:
    """Providers that are all of it, each by itself, oldest first.

    Further words: `member_of` and `required` are sets of which one must hold each, `forbidden_aggregates` and
    `forbidden` must not hold at all, `resources` must be free. Raises Invalid for traits and resource classes that
    nobody made.
    """
    wish = _Wish(**wished)  # type: ignore[arg-type]
    _refuse_unknown(wish)
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
    return [view_of(row) for row in with_places(_alone(rows, wish)).order_by("pk")]


def giving(kind: str, amount: int) -> QuerySet[Inventory]:
    """Inventories that give so much of a resource class now."""
    capacity = ExpressionWrapper((F("total") - F("reserved")) * F("allocation_ratio"), FloatField())
    inventories = Inventory.objects.annotate(capacity=capacity, rest=Value(amount) % F("step_size"))
    return inventories.filter(
        resource_class=kind,
        min_unit__lte=amount,
        max_unit__gte=amount,
        rest=0,
        capacity__gte=F("used") + amount,
    )


def _alone(rows: QuerySet[ResourceProvider], wish: _Wish) -> QuerySet[ResourceProvider]:
    me = OuterRef("pk")
    for kind, amount in wish.resources.items():
        rows = rows.filter(Exists(giving(kind, amount).filter(provider=me)))
    for names in wish.required:
        rows = rows.filter(Exists(ProviderTrait.objects.filter(provider=me, name__in=list(names))))
    for uuids in wish.member_of:
        rows = rows.filter(Exists(ProviderAggregate.objects.filter(provider=me, aggregate_uuid__in=list(uuids))))
    if wish.forbidden:
        rows = rows.exclude(Exists(ProviderTrait.objects.filter(provider=me, name__in=list(wish.forbidden))))
    if wish.forbidden_aggregates:
        bad = ProviderAggregate.objects.filter(provider=me, aggregate_uuid__in=list(wish.forbidden_aggregates))
        rows = rows.exclude(Exists(bad))
    return rows


def _refuse_unknown(wish: _Wish) -> None:
    wanted = {name for names in wish.required for name in names} | set(wish.forbidden)
    traits.refuse_unknown(wanted)
    resource_classes.refuse_unknown(wish.resources)
    for kind, amount in wish.resources.items():
        if amount < 1:
            raise Invalid(f"resources: at least 1 of {kind} can be asked for, not {amount}.", field="resources")
