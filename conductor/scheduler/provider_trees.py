"""Provider trees of hosts, and the providers that share with each tree, updated as providers change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from conductor.core.frozen import frozen
from conductor.core.placement.forest import SHARES, ProviderNode
from conductor.placement.providers import ProviderState

Names = frozenset[str]
NO_NAMES: Names = frozenset()


class ProviderTrees:
    """Follows provider trees. It costs next to nothing where every host is one provider, as most hosts are."""

    def __init__(self) -> None:
        self._states: dict[str, ProviderState] = {}
        # root → all providers below it, for roots with children
        self._trees: defaultdict[str, set[str]] = defaultdict(set)
        self._sharing: defaultdict[str, set[str]] = defaultdict(set)  # aggregate → its sharing providers

    def follow(self, changed: Iterable[ProviderState]) -> tuple[set[str], Names]:
        """Apply changes. Return the providers that they may affect, and the aggregates whose members are all
        affected.
        """
        touched: set[str] = set()
        reached: set[str] = set()
        for state in changed:
            before = self._states.get(state.uuid)
            self._states[state.uuid] = state
            touched.add(state.uuid)
            for one in (before, state) if before else (state,):
                reached |= _shared_with(one)
                touched |= self._beside(one)
            self._place(before, state)
            touched |= self._beside(state)
        return touched, frozenset(reached)

    def roots(self, uuids: Iterable[str]) -> set[str]:
        """Return the roots of these providers, without those that are alone in their trees."""
        known = (self._states[uuid].root_uuid for uuid in uuids if uuid in self._states)
        return {root for root in known if root in self._trees}

    def tree_of(self, uuid: str, aggregates: Names) -> tuple[ProviderNode, ...]:
        """Return the tree of a host's provider with its sharing providers, root first. Empty where there is only one
        provider.

        `aggregates` are the host's own: its provider is in them too.
        """
        if not (self._trees or self._sharing):
            return ()
        root = self._states[uuid].root_uuid
        own = [root, *sorted(self._members(root) - {root})]
        at = {one: self._states[one].aggregates | (aggregates if one == uuid else NO_NAMES) for one in own}
        members = NO_NAMES.union(*at.values())
        sharing = {one for name in members & self._sharing.keys() for one in self._sharing[name]} - set(own)
        if len(own) == 1 and not sharing:
            return ()
        # The search needs whole trees, also of the sharing providers.
        others = {one for sharer in sharing for one in self._members(self._states[sharer].root_uuid)} - set(own)
        return tuple(
            _node(self._states[one], at.get(one, self._states[one].aggregates)) for one in (*own, *sorted(others))
        )

    def _beside(self, state: ProviderState) -> set[str] | Names:
        """Return the other members of its tree. Empty where it is alone, as nearly all are."""
        is_alone = state.root_uuid == state.uuid and state.uuid not in self._trees
        return NO_NAMES if is_alone else self._members(state.root_uuid)

    def _members(self, root: str) -> set[str]:
        return {root, *self._trees[root]} if root in self._trees else {root} & self._states.keys()

    def _place(self, before: ProviderState | None, state: ProviderState) -> None:
        if before is not None and before.root_uuid != before.uuid:
            self._trees[before.root_uuid].discard(before.uuid)
            if not self._trees[before.root_uuid]:
                del self._trees[before.root_uuid]
        if state.root_uuid != state.uuid:
            self._trees[state.root_uuid].add(state.uuid)
        for name in _shared_with(before) if before else ():
            self._sharing[name].discard(state.uuid)
            if not self._sharing[name]:
                del self._sharing[name]
        for name in _shared_with(state):
            self._sharing[name].add(state.uuid)


def _shared_with(state: ProviderState) -> Names:
    return state.aggregates if SHARES in state.traits else NO_NAMES


def _node(state: ProviderState, aggregates: Names) -> ProviderNode:
    return ProviderNode(
        uuid=state.uuid,
        name=state.name,
        parent_uuid=state.parent_uuid,
        root_uuid=state.root_uuid,
        generation=state.generation,
        traits=state.traits,
        aggregates=aggregates,
        amounts=frozen(dict(state.amounts)),
    )
