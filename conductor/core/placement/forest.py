"""Trees of resource providers, and the trees that each sharing provider serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conductor.core.placement.amounts import Amount

SHARES = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True, slots=True)
class ProviderNode:
    """A provider as the search sees it. Providers with the same `root_uuid` form a tree; an empty one means the
    provider itself.
    """

    uuid: str
    name: str = ""
    parent_uuid: str | None = None
    root_uuid: str = ""
    generation: int = 0
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forest:
    """All providers by uuid, and trees by the uuid of their root; both in the given order."""

    nodes: Mapping[str, ProviderNode]
    trees: Mapping[str, Sequence[ProviderNode]]
    members: Mapping[str, Sequence[str]]  # aggregate → roots of trees with a member in it

    @classmethod
    def of(cls, providers: Sequence[ProviderNode]) -> Forest:
        trees: dict[str, list[ProviderNode]] = {}
        for node in providers:
            trees.setdefault(node.root_uuid or node.uuid, []).append(node)
        shared = {name for node in providers if SHARES in node.traits for name in node.aggregates}
        members: dict[str, dict[str, None]] = {name: {} for name in shared}
        for node in providers:
            for name in shared & node.aggregates:
                members[name][node.root_uuid or node.uuid] = None
        return cls({node.uuid: node for node in providers}, trees, {name: list(of) for name, of in members.items()})

    def root_of(self, uuid: str) -> str:
        return self.nodes[uuid].root_uuid or uuid

    def tree_with(self, uuid: str) -> Sequence[ProviderNode]:
        """Return the tree of a provider; empty when there is no such provider."""
        return self.trees[self.root_of(uuid)] if uuid in self.nodes else ()

    def anchors_of(self, node: ProviderNode) -> Sequence[str]:
        """Return the roots of the trees that may use the provider: its own, and those of its aggregates if it
        shares.
        """
        own = node.root_uuid or node.uuid
        if SHARES not in node.traits:
            return (own,)
        reached = {own: None}
        for name in sorted(node.aggregates):
            reached |= dict.fromkeys(self.members[name])
        return list(reached)

    def are_under_one(self, uuids: frozenset[str]) -> bool:
        """Whether one of these providers is an ancestor of all the others."""
        common: set[str] = set(uuids)
        for uuid in uuids:
            common &= self._line_of(uuid)
        return bool(common) or not uuids

    def _line_of(self, uuid: str) -> set[str]:
        line: set[str] = set()
        at: str | None = uuid
        while at is not None and at not in line:
            line.add(at)
            node = self.nodes.get(at)
            at = node.parent_uuid if node else None
        return line
