"""Evaluates a query for allocation candidates on one host, or on all at once.

A host with one provider is judged by its columns; for one with several, a combination of them is searched.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.placement.amounts import Amount
from conductor.core.placement.query import CandidateQuery
from conductor.core.scheduling import host_trees
from conductor.core.scheduling.host_trees import Parts
from conductor.core.scheduling.needs import Needs, amounts_of

ISOLATE = "isolate"
# Resource class → column of free amounts.
COLUMNS: Mapping[str, str] = {
    "VCPU": "free_vcpus",
    "MEMORY_MB": "free_memory_mb",
    "DISK_GB": "free_disk_gb",
}
Units = tuple[tuple[str, int, int, int], ...]
NOTHING = Amount(0)


def answers(hosts: HostTable, query: CandidateQuery) -> Mask:
    """Return a mask over all hosts: whether the host alone can give all that is requested."""
    mask = np.zeros(len(hosts), np.bool_) if asks_several(query) else _by_columns(hosts, query)
    host_trees.correct(mask, hosts, query)
    return mask


def _by_columns(hosts: HostTable, query: CandidateQuery) -> Mask:
    """Return a mask over all hosts, as if each had only one provider."""
    groups = query.groups.values()
    mask: Mask | None = None
    for name, amount in amounts_of(query).items():
        column = COLUMNS.get(name)
        room = getattr(hosts, column) >= amount if column else _has_others(hosts, name, amount)
        mask = room if mask is None else np.logical_and(mask, room, out=mask)
    if mask is None:
        mask = np.ones(len(hosts), np.bool_)
    units = hosts.factor("units")
    if units.values != ((),):  # most fleets have no unit rules
        parts = parts_of(query)
        mask &= units.mask(lambda rules: wrong_units(rules, parts) is None)
    if query.root_required or query.root_forbidden or any(group.required or group.forbidden for group in groups):
        mask &= hosts.factor("traits").mask(lambda traits: has_traits(traits, query))
    if any(group.member_of or group.forbidden_aggregates for group in groups):
        mask &= hosts.factor("aggregates").mask(lambda aggregates: is_member(aggregates, query))
    for uuid in {group.in_tree for group in groups if group.in_tree}:
        mask &= np.fromiter((state.provider_uuid == uuid for state in hosts.states), np.bool_, len(hosts))
    return mask


def can_answer(host: HostState, query: CandidateQuery) -> bool:
    """Whether one host alone can give all that is requested."""
    if host.tree:
        return host_trees.parts_of(host, query) is not None
    return (
        not asks_several(query)
        and not any(free_of(host, name) < amount for name, amount in amounts_of(query).items())
        and wrong_units(host.units, parts_of(query)) is None
        and has_traits(host.traits, query)
        and is_member(host.aggregates, query)
        and all(group.in_tree in ("", host.provider_uuid) for group in query.groups.values())
    )


def resources_at(host: HostState, needs: Needs) -> dict[str, int]:
    """Return what an instance takes of this host: the amounts of the first query that the host can satisfy."""
    for query in needs.queries[1:] and needs.queries:
        if can_answer(host, query):
            return amounts_of(query)
    return dict(needs.resources)


def parts_at(host: HostState, needs: Needs) -> Parts:
    """Return what an instance takes of each provider of this host; empty where the host has only one."""
    if not host.tree:
        return {}
    found = (host_trees.parts_of(host, query) for query in needs.queries)
    return next((parts for parts in found if parts is not None), {})


def asks_several(query: CandidateQuery) -> bool:
    """Whether groups must come from different providers, which a host with one provider cannot satisfy."""
    if query.group_policy != ISOLATE:
        return False
    return sum(bool(suffix and group.resources) for suffix, group in query.groups.items()) > 1


def parts_of(query: CandidateQuery) -> dict[str, list[int]]:
    """Return the amounts that each group requests at once, and their sum, by resource class."""
    found: dict[str, list[int]] = {}
    for group in query.groups.values():
        for name, amount in group.resources.items():
            found.setdefault(name, []).append(amount)
    return found


def wrong_units(units: Units, parts: Mapping[str, list[int]]) -> tuple[str, int, int, int] | None:
    """Return the first unit rule that an amount breaks: class, minimum, maximum, step."""
    for name, least, most, step in units:
        amounts = parts.get(name, ())
        if any(not least <= amount <= most or amount % step for amount in amounts) or sum(amounts) > most:
            return name, least, most, step
    return None


def has_traits(traits: frozenset[str], query: CandidateQuery) -> bool:
    return not missing_traits(traits, query) and not unwanted_traits(traits, query)


def missing_traits(traits: frozenset[str], query: CandidateQuery) -> list[str]:
    """Return the missing required traits. A set of alternatives becomes one text."""
    missing = query.root_required - traits
    sets = (names for group in query.groups.values() for names in group.required if not names & traits)
    return sorted({*missing, *(" or ".join(sorted(names)) for names in sets)})


def unwanted_traits(traits: frozenset[str], query: CandidateQuery) -> list[str]:
    forbidden = query.root_forbidden.union(*(group.forbidden for group in query.groups.values()))
    return sorted(forbidden & traits)


def is_member(aggregates: frozenset[str], query: CandidateQuery) -> bool:
    return all(
        all(names & aggregates for names in group.member_of) and not group.forbidden_aggregates & aggregates
        for group in query.groups.values()
    )


def free_of(host: HostState, resource_class: str) -> float:
    """Return what placement can still allocate; 0 for a class that the host does not have."""
    column = COLUMNS.get(resource_class)
    return getattr(host, column) if column else host.amounts.get(resource_class, NOTHING).free


def _has_others(hosts: HostTable, name: str, amount: int) -> Mask:
    """Judge classes without a column; hosts with claims since the column was made are judged again."""

    def of(host: HostState) -> Amount:
        return host.amounts.get(name, NOTHING)

    mask = hosts.factor(f"amount:{name}", of).mask(lambda found: found.free >= amount)
    for row in hosts.claimed_rows:
        mask[row] = of(hosts.states[row]).free >= amount
    return mask
