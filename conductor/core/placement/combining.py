"""Combines one candidate per group into candidates for the whole query, and prunes early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conductor.core.placement.forest import Forest, ProviderNode
from conductor.core.placement.query import CandidateQuery, RequestGroup

ISOLATE = "isolate"
SPREAD = ""
Key = tuple[str, str]  # provider uuid, resource class
Choices = Mapping[str, Sequence[ProviderNode]]  # resource class → providers that can give it


@dataclass(frozen=True, slots=True)
class Combination:
    """Allocated amounts, and the providers of each group."""

    amounts: Mapping[Key, int]
    mappings: Mapping[str, Sequence[str]]


NOTHING_YET = Combination({}, {})


@dataclass(frozen=True, slots=True)
class Combiner:
    """Combines candidates of one query's groups within one tree and the providers that share with it."""

    forest: Forest
    query: CandidateQuery
    groups: Mapping[str, RequestGroup]

    def may_fit(self, lists: Mapping[str, Sequence[Combination]], choices: Choices | None) -> bool:
        """Whether the providers together have the total of each class; otherwise no combination fits."""
        requested: dict[str, int] = {}
        times: dict[str, int] = {}
        for group in self.groups.values():
            for kind, amount in group.resources.items():
                requested[kind] = requested.get(kind, 0) + amount
                times[kind] = times.get(kind, 0) + 1
        several = {kind for kind, count in times.items() if count > 1}
        if not several:
            return True
        givers: set[Key] = {key for ways in lists.values() for way in ways for key in way.amounts}
        givers |= {(node.uuid, kind) for kind, nodes in (choices or {}).items() for node in nodes}
        free = dict.fromkeys(several, 0.0)
        for uuid, kind in givers:
            if kind in several:
                free[kind] += self.forest.nodes[uuid].amounts[kind].free
        return all(requested[kind] <= free[kind] for kind in several)

    def walk(self, lists: Mapping[str, Sequence[Combination]], choices: Choices | None) -> Iterator[Combination]:
        """Yield every valid combination. The group that may be spread comes first, so it is enumerated only once."""
        order = [suffix for suffix in self.groups if suffix in lists]
        starts = iter((NOTHING_YET,)) if choices is None else self._spread(self.groups[SPREAD], choices)
        for start in starts:
            yield from self._extended(start, [(suffix, lists[suffix]) for suffix in order])

    def _extended(
        self, so_far: Combination, left: Sequence[tuple[str, Sequence[Combination]]]
    ) -> Iterator[Combination]:
        if not left:
            yield so_far
            return
        (suffix, ways), *rest = left
        for way in ways:
            joined = self._joined(so_far, suffix, way)
            if joined is not None:
                yield from self._extended(joined, rest)

    def _joined(self, so_far: Combination, suffix: str, way: Combination) -> Combination | None:
        """Join both; None where they exclude each other."""
        if suffix != SPREAD and self.query.group_policy == ISOLATE and self._is_taken(so_far, way.mappings[suffix][0]):
            return None
        amounts = dict(so_far.amounts)
        for key, amount in way.amounts.items():
            amounts[key] = amounts.get(key, 0) + amount
            if key in so_far.amounts and not self._fits(key, amounts[key]):
                return None
        mappings = {**so_far.mappings, **way.mappings}
        return Combination(amounts, mappings) if self._keeps_subtrees(suffix, mappings) else None

    def _is_taken(self, so_far: Combination, uuid: str) -> bool:
        return any(suffix != SPREAD and uuid in uuids for suffix, uuids in so_far.mappings.items())

    def _fits(self, key: Key, amount: int) -> bool:
        uuid, kind = key
        have = self.forest.nodes[uuid].amounts[kind]
        return have.used + amount <= have.capacity and amount <= have.max_unit

    def _keeps_subtrees(self, suffix: str, mappings: Mapping[str, Sequence[str]]) -> bool:
        """Check subtrees once their last group is placed: a later group might be the common root."""
        for subtree in self.query.same_subtrees:
            suffixes = subtree & self.groups.keys()
            if suffix in suffixes and suffixes <= mappings.keys():
                uuids = frozenset(uuid for name in suffixes for uuid in mappings[name])
                if not self.forest.are_under_one(uuids):
                    return False
        return True

    def _spread(self, group: RequestGroup, choices: Choices) -> Iterator[Combination]:
        """Choose a provider for each class; together they have the traits that the group requires."""
        kinds = list(choices)

        def pick(index: int, chosen: tuple[ProviderNode, ...]) -> Iterator[tuple[ProviderNode, ...]]:
            if index == len(kinds):
                yield chosen
                return
            for node in choices[kinds[index]]:
                yield from pick(index + 1, (*chosen, node))

        for nodes in pick(0, ()):
            traits = frozenset[str]().union(*(node.traits for node in nodes))
            if not all(alternatives & traits for alternatives in group.required):
                continue
            amounts = {(node.uuid, kind): group.resources[kind] for kind, node in zip(kinds, nodes, strict=True)}
            mappings = {SPREAD: tuple(dict.fromkeys(node.uuid for node in nodes))}
            if self._keeps_subtrees(SPREAD, mappings):
                yield Combination(amounts, mappings)
