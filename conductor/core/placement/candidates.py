"""Search for allocation candidates: sets of providers that together satisfy a query."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from conductor.core.errors import Invalid
from conductor.core.placement.amounts import Amount
from conductor.core.placement.combining import Combination, Combiner, Key
from conductor.core.placement.forest import Forest, ProviderNode
from conductor.core.placement.query import CandidateQuery, RequestGroup

__all__ = [
    "Amount",
    "CandidateRequest",
    "Candidates",
    "ProviderNode",
    "SearchOptions",
    "find",
    "within_single_providers",
]

SPREAD = ""  # the suffix of the group that may be spread over a tree
DEPTH_FIRST = "depth-first"
BREADTH_FIRST = "breadth-first"
STRATEGIES = (DEPTH_FIRST, BREADTH_FIRST)


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """One candidate: amounts by provider uuid and resource class, and the providers of each group by the group's
    suffix.
    """

    resources_by_provider: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates, and every provider of the trees that they use, by uuid."""

    requests: tuple[CandidateRequest, ...] = ()
    summaries: Mapping[str, ProviderNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of a search.

    Attributes:
        at_most: Maximum number of candidates; -1 for no maximum.
        seed: Draws the candidates at random. Without it they come in the order of the providers.
        roots: Searches only these trees, with the providers that share with them.

    A depth-first search finds all candidates in one tree before it searches the next. A breadth-first search takes one
    candidate of each tree in turn, so that a bounded search still covers many trees.
    """

    strategy: str = DEPTH_FIRST
    at_most: int = -1
    seed: int | None = None
    roots: frozenset[str] = frozenset()


def find(providers: Sequence[ProviderNode], query: CandidateQuery, options: SearchOptions | None = None) -> Candidates:
    """Return the candidates for `query`, in the order of the providers: the same query gets the same result.

    `providers` must hold whole trees: each provider with a root is included together with that root.
    """
    how = options or SearchOptions()
    if how.strategy not in STRATEGIES:
        raise Invalid(f"No such strategy: {how.strategy}; it is one of {', '.join(STRATEGIES)}.", field="strategy")
    forest = Forest.of(providers)
    groups = {suffix: group for suffix, group in query.groups.items() if suffix or group != RequestGroup()}
    if not groups:
        return Candidates()
    found = _searched(forest, query, groups, how)
    if forest.members:
        found = _distinct(found)
    bounds = [bound for bound in (how.at_most, _limit(query)) if bound >= 0]
    if how.seed is None:
        return _answer(forest, _first(found, min(bounds, default=-1)))
    ways = _first(found, how.at_most)
    dice = random.Random(how.seed)
    drawn = dice.sample(ways, min(len(ways), max(_limit(query), 0) or len(ways)))
    return _answer(forest, drawn)


def within_single_providers(candidates: Candidates) -> Candidates:
    """Drop candidates that use two providers of one tree; for callers that do not know trees."""
    kept = []
    for request in candidates.requests:
        roots = [candidates.summaries[uuid].root_uuid or uuid for uuid in request.resources_by_provider]
        if len(set(roots)) == len(roots):
            kept.append(request)
    if len(kept) == len(candidates.requests) and not any(node.parent_uuid for node in candidates.summaries.values()):
        return candidates
    used = {uuid for request in kept for uuid in request.resources_by_provider}
    return Candidates(tuple(kept), {uuid: node for uuid, node in candidates.summaries.items() if uuid in used})


def _limit(query: CandidateQuery) -> int:
    return query.limit or -1


def _first(ways: Iterator[Combination], at_most: int) -> list[Combination]:
    found: list[Combination] = []
    for way in ways:
        if len(found) == at_most:
            break
        found.append(way)
    return found


def _answer(forest: Forest, ways: Iterable[Combination]) -> Candidates:
    requests = []
    roots: dict[str, None] = {}
    for way in ways:
        amounts: dict[str, dict[str, int]] = {}
        for (uuid, kind), amount in way.amounts.items():
            amounts.setdefault(uuid, {})[kind] = amount
            roots[forest.root_of(uuid)] = None
        requests.append(CandidateRequest(amounts, {suffix: tuple(uuids) for suffix, uuids in way.mappings.items()}))
    summaries = {node.uuid: node for root in roots for node in forest.trees[root]}
    return Candidates(tuple(requests), summaries)


def _distinct(ways: Iterator[Combination]) -> Iterator[Combination]:
    """Drop duplicates: a shared provider is reached from every tree that it shares with."""
    seen = set()
    for way in ways:
        mark = (
            frozenset(way.amounts.items()),
            frozenset((suffix, frozenset(uuids)) for suffix, uuids in way.mappings.items()),
        )
        if mark not in seen:
            seen.add(mark)
            yield way


def _searched(
    forest: Forest, query: CandidateQuery, groups: Mapping[str, RequestGroup], how: SearchOptions
) -> Iterator[Combination]:
    wanted = [root for root in forest.trees if root in how.roots] if how.roots else forest.trees
    roots = {root for root in wanted if _may_anchor(forest, root, query)}
    by_suffix = {
        suffix: _whole_ways(forest, suffix, group, roots)
        for suffix, group in groups.items()
        if suffix != SPREAD or not group.resources
    }
    spread = groups.get(SPREAD)
    choices = _spread_choices(forest, spread, roots) if spread and spread.resources else None
    combiner = Combiner(forest, query, groups)
    walks = []
    for root in wanted:
        if any(root not in ways for ways in by_suffix.values()) or (choices is not None and root not in choices):
            continue
        lists = {suffix: ways[root] for suffix, ways in by_suffix.items()}
        options = choices[root] if choices is not None else None
        if combiner.may_fit(lists, options):
            walks.append(combiner.walk(lists, options))
    return _in_turn(walks) if how.strategy == BREADTH_FIRST else chain.from_iterable(walks)


def _in_turn(walks: list[Iterator[Combination]]) -> Iterator[Combination]:
    while walks:
        going = []
        for walk in walks:
            way = next(walk, None)
            if way is not None:
                going.append(walk)
                yield way
        walks = going


def _may_anchor(forest: Forest, root: str, query: CandidateQuery) -> bool:
    """Whether the root of a tree has the traits that the query requires of roots. An unknown root has none."""
    if not (query.root_required or query.root_forbidden):
        return True
    node = forest.nodes.get(root)
    return node is not None and query.root_required <= node.traits and not query.root_forbidden & node.traits


def _whole_ways(forest: Forest, suffix: str, group: RequestGroup, roots: set[str]) -> dict[str, list[Combination]]:
    """Return candidates that serve a group from one provider, by the root of each tree that can use that provider."""
    found: dict[str, list[Combination]] = {}
    if not group.resources and not (group.required or group.member_of):
        return found  # a group without requirements gets no provider
    for node in _in_range(forest, group):
        if not _serves(node, group):
            continue
        amounts: dict[Key, int] = {(node.uuid, kind): amount for kind, amount in group.resources.items()}
        way = Combination(amounts, {suffix: (node.uuid,)})
        for root in forest.anchors_of(node):
            if root in roots:
                found.setdefault(root, []).append(way)
    return found


def _in_range(forest: Forest, group: RequestGroup) -> Iterable[ProviderNode]:
    if not group.in_tree:
        return forest.nodes.values()
    return forest.tree_with(group.in_tree)


def _serves(node: ProviderNode, group: RequestGroup) -> bool:
    """Whether one provider alone satisfies the group."""
    return (
        not group.forbidden & node.traits
        and all(alternatives & node.traits for alternatives in group.required)
        and not group.forbidden_aggregates & node.aggregates
        and _is_member(node, group)
        and all(_gives(node, kind, amount) for kind, amount in group.resources.items())
    )


def _gives(node: ProviderNode, kind: str, amount: int) -> bool:
    have = node.amounts.get(kind)
    return have is not None and have.gives(amount)


def _is_member(node: ProviderNode | None, group: RequestGroup) -> bool:
    return node is not None and all(alternatives & node.aggregates for alternatives in group.member_of)


def _spread_choices(
    forest: Forest, group: RequestGroup, roots: set[str]
) -> dict[str, Mapping[str, Sequence[ProviderNode]]]:
    """Return possible providers by class, by the root of each tree that has all classes, with its sharing providers."""
    by_class = {kind: _givers(forest, group, kind, roots) for kind in sorted(group.resources)}
    found: dict[str, Mapping[str, Sequence[ProviderNode]]] = {}
    for root in forest.trees:
        if all(root in givers for givers in by_class.values()):
            found[root] = {kind: givers[root] for kind, givers in by_class.items()}
    return found


def _givers(forest: Forest, group: RequestGroup, kind: str, roots: set[str]) -> dict[str, list[ProviderNode]]:
    """Return the providers that can give `kind`, by root. An aggregate of the root counts for its whole tree."""
    found: dict[str, list[ProviderNode]] = {}
    for node in _in_range(forest, group):
        if not _gives(node, kind, group.resources[kind]) or group.forbidden & node.traits:
            continue
        for root in _reached(forest, node, group):
            if root not in roots:
                continue
            anchor = forest.nodes.get(root)
            outside = node.aggregates | (anchor.aggregates if anchor else frozenset())
            if group.forbidden_aggregates & outside:
                continue
            if _is_member(node, group) or _is_member(anchor, group):
                found.setdefault(root, []).append(node)
    return found


def _reached(forest: Forest, node: ProviderNode, group: RequestGroup) -> Sequence[str]:
    """Return the roots of the trees that a provider can serve.

    With `in_tree`, or where the provider is outside the required aggregates, that is only its own tree.
    """
    if group.in_tree or (group.member_of and not _is_member(node, group)):
        return (forest.root_of(node.uuid),)
    return forest.anchors_of(node)
