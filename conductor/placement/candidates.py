"""Allocation candidates from the database: SQL selects trees that may fit, the search in core decides."""

from __future__ import annotations

import random
from collections import defaultdict

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from conductor.core.placement import candidates as pure
from conductor.core.placement.amounts import Amount
from conductor.core.placement.candidates import Candidates, ProviderNode, SearchOptions
from conductor.core.placement.forest import SHARES
from conductor.core.placement.query import CandidateQuery, RequestGroup
from conductor.placement import resource_classes, traits
from conductor.placement.models import ProviderAggregate, ProviderInventory, ProviderTrait, ResourceProvider
from conductor.placement.provider_search import giving

MOST_NAMED = 2000  # trees per statement
FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "used")


def search(query: CandidateQuery, options: SearchOptions | None = None) -> Candidates:
    """Return the candidates of a query. The number of statements does not depend on the number of providers.

    Without `options`, the search uses the operator's settings. Raises Invalid for unknown traits and resource classes.
    """
    groups = query.groups.values()
    resource_classes.refuse_unknown({kind for group in groups for kind in group.resources})
    named = {name for group in groups for name in group.forbidden.union(*group.required)}
    traits.refuse_unknown({*named, *query.root_required, *query.root_forbidden})
    sharing = list(ResourceProvider.objects.filter(trait_links__name=SHARES).values_list("root_id", flat=True))
    roots = _roots(query, is_shared=bool(sharing)).values_list("pk", flat=True)
    how = options or _configured()
    if query.limit and query.limit <= MOST_NAMED and how == SearchOptions() and not sharing:
        # Mostly the oldest few trees suffice, so the others are not read.
        found = pure.find(_nodes(list(roots[: query.limit])), query, how)
        if len(found.requests) >= query.limit:
            return found
    return pure.find(_nodes(sorted({*roots, *(root for root in sharing if root)})), query, how)


def _configured() -> SearchOptions:
    return SearchOptions(
        settings.NOVELLA_CANDIDATE_STRATEGY,
        settings.NOVELLA_CANDIDATES_AT_MOST,
        random.randrange(2**32) if settings.NOVELLA_CANDIDATES_AT_RANDOM else None,
    )


def _roots(query: CandidateQuery, *, is_shared: bool) -> QuerySet[ResourceProvider]:
    """Select roots of trees that may serve all groups; SQL drops those that cannot without sharing."""
    me = OuterRef("pk")
    rows = ResourceProvider.objects.filter(parent=None)
    for name in query.root_required:
        rows = rows.filter(Exists(ProviderTrait.objects.filter(provider=me, name=name)))
    if query.root_forbidden:
        rows = rows.exclude(Exists(ProviderTrait.objects.filter(provider=me, name__in=list(query.root_forbidden))))
    for kind, amount in {item for group in query.groups.values() for item in group.resources.items()}:
        givers = giving(kind, amount)
        has = Q(Exists(givers.filter(provider__root_id=me)))
        if is_shared:
            sharing = givers.filter(provider__trait_links__name=SHARES).values("provider")
            offered = ProviderAggregate.objects.filter(provider__in=sharing).values("aggregate_uuid")
            has |= Q(Exists(ProviderAggregate.objects.filter(provider__root_id=me, aggregate_uuid__in=offered)))
        rows = rows.filter(has)
    if not is_shared:
        for group in query.groups.values():
            rows = _placed(rows, group)
    return rows.order_by("pk")


def _placed(rows: QuerySet[ResourceProvider], group: RequestGroup) -> QuerySet[ResourceProvider]:
    """Select roots of trees with a member in the group's aggregates, and of the tree that the group names."""
    if group.in_tree:
        rows = rows.filter(pk__in=ResourceProvider.objects.filter(uuid=group.in_tree).values("root_id"))
    for uuids in group.member_of:
        members = ProviderAggregate.objects.filter(provider__root_id=OuterRef("pk"), aggregate_uuid__in=list(uuids))
        rows = rows.filter(Exists(members))
    return rows


def _nodes(roots: list[int]) -> list[ProviderNode]:
    """Return all providers of these trees, in the order of their creation."""
    wanted = set(roots)
    is_long = len(roots) > MOST_NAMED  # then most are wanted, and reading all is cheaper than listing them
    rows = ResourceProvider.objects.all() if is_long else ResourceProvider.objects.filter(root_id__in=roots)
    mine = Q() if is_long else Q(provider__root_id__in=roots)
    amounts: defaultdict[int, dict[str, Amount]] = defaultdict(dict)
    for pk, kind, *values in ProviderInventory.objects.filter(mine).values_list(
        "provider_id", "resource_class", *FIELDS
    ):
        amounts[pk][kind] = Amount(*values)
    aggregates: defaultdict[int, set[str]] = defaultdict(set)
    for pk, name in ProviderAggregate.objects.filter(mine).values_list("provider_id", "aggregate_uuid"):
        aggregates[pk].add(str(name))
    fields = ("pk", "uuid", "name", "generation", "traits", "root_id", "parent__uuid", "root__uuid")
    return [
        ProviderNode(
            str(uuid),
            name,
            str(parent) if parent else None,
            str(root or uuid),
            generation,
            frozenset(names),
            frozenset(aggregates[pk]),
            amounts[pk],
        )
        for pk, uuid, name, generation, names, root_id, parent, root in rows.order_by("pk").values_list(*fields)
        if not is_long or root_id in wanted
    ]
