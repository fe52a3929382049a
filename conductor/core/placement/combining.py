"""One way for each group, put together to ways for the whole query; what cannot become one is cut early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conductor.core.placement.forest import Forest, ProviderNode
from conductor.core.placement.query import CandidateQuery, RequestGroup

ISOLATE = "isolate"
SPREAD = ""
Key = tuple[str, str]  # provider uuid, resource class
Choices = Mapping[str, Sequence[ProviderNode]]  # resource class → who may give it


@dataclass(frozen=True, slots=True)
class Way:
    """Amounts that are taken, and who serves which group."""

    amounts: Mapping[Key, int]
    mappings: Mapping[str, Sequence[str]]


NOTHING_YET = Way({}, {})


@dataclass(frozen=True, slots=True)
class Combiner:
    """Puts together ways of one query's groups within one tree, and with those who share with it."""

    forest: Forest
    query: CandidateQuery
    groups: Mapping[str, RequestGroup]

    def may_fit(self, lists: Mapping[str, Sequence[Way]], choices: Choices | None) -> bool:
        """Whether all givers together have as much of each class as all groups ask for: else no combination fits."""
        asked: dict[str, int] = {}
        times: dict[str, int] = {}
        for group in self.groups.values():
            for kind, amount in group.resources.items():
                asked[kind] = asked.get(kind, 0) + amount
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
        return all(asked[kind] <= free[kind] for kind in several)

    def walk(self, lists: Mapping[str, Sequence[Way]], choices: Choices | None) -> Iterator[Way]:
        """Every combination that holds. The group that may be spread comes first, as it is walked only once then."""
        order = [suffix for suffix in self.groups if suffix in lists]
        starts = iter((NOTHING_YET,)) if choices is None else self._spread(self.groups[SPREAD], choices)
        for start in starts:
            yield from self._extended(start, [(suffix, lists[suffix]) for suffix in order])

    def _extended(self, so_far: Way, left: Sequence[tuple[str, Sequence[Way]]]) -> Iterator[Way]:
        if not left:
            yield so_far
            return
        (suffix, ways), *rest = left
        for way in ways:
            joined = self._joined(so_far, suffix, way)
            if joined is not None:
                yield from self._extended(joined, rest)

    def _joined(self, so_far: Way, suffix: str, way: Way) -> Way | None:
        """Both together; None where they do not go together."""
        if suffix != SPREAD and self.query.group_policy == ISOLATE and self._is_taken(so_far, way.mappings[suffix][0]):
            return None
        amounts = dict(so_far.amounts)
        for key, amount in way.amounts.items():
            amounts[key] = amounts.get(key, 0) + amount
            if key in so_far.amounts and not self._fits(key, amounts[key]):
                return None
        mappings = {**so_far.mappings, **way.mappings}
        return Way(amounts, mappings) if self._keeps_subtrees(suffix, mappings) else None

    def _is_taken(self, so_far: Way, uuid: str) -> bool:
        return any(suffix != SPREAD and uuid in uuids for suffix, uuids in so_far.mappings.items())

    def _fits(self, key: Key, amount: int) -> bool:
        uuid, kind = key
        have = self.forest.nodes[uuid].amounts[kind]
        return have.used + amount <= have.capacity and amount <= have.max_unit

    def _keeps_subtrees(self, suffix: str, mappings: Mapping[str, Sequence[str]]) -> bool:
        """Judged when the last group of a subtree is there: a further one might be the root of all."""
        for subtree in self.query.same_subtrees:
            suffixes = subtree & self.groups.keys()
            if suffix in suffixes and suffixes <= mappings.keys():
                uuids = frozenset(uuid for name in suffixes for uuid in mappings[name])
                if not self.forest.are_under_one(uuids):
                    return False
        return True

    def _spread(self, group: RequestGroup, choices: Choices) -> Iterator[Way]:
        """Each class from one of those who may give it; together they have what the group requires."""
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
                yield Way(amounts, mappings)
