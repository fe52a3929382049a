"""Hosts with several providers: what the providers give together, and what is left after a claim."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conductor.core.frozen import frozen
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.placement.amounts import Amount
from conductor.core.placement.candidates import SearchOptions, find
from conductor.core.placement.forest import ProviderNode
from conductor.core.placement.query import CandidateQuery

Parts = Mapping[str, Mapping[str, int]]  # amounts by resource class, by provider uuid
WAYS_TRIED = 100  # of one host; the first one mostly fits
NONE_OF_IT = Amount(0)
# Resource class → its fields in a host's state.
STANDARD = {
    "VCPU": ("vcpus", "cpu_ratio"),
    "MEMORY_MB": ("memory_mb", "ram_ratio"),
    "DISK_GB": ("disk_gb", "disk_ratio"),
}


def rows_of(hosts: HostTable) -> Mask | None:
    """Return a mask of the hosts with several providers. None if there is no such host, which is typical."""
    factor = hosts.factor("tree", _is_tree)
    return factor.mask(bool) if True in factor.values else None


def correct(mask: Mask, hosts: HostTable, query: CandidateQuery) -> None:
    """Put the results for hosts with several providers into `mask`. Equal hosts are judged once."""
    trees = rows_of(hosts)
    if trees is None:
        return
    known: dict[Hashable, bool] = {}
    names_trees = any(group.in_tree for group in query.groups.values())
    for row in map(int, np.flatnonzero(trees)):
        host = hosts.states[row]
        shape = host.provider_uuid if names_trees else _shape(host)
        if shape not in known:
            known[shape] = parts_of(host, query) is not None
        mask[row] = known[shape]


def parts_of(host: HostState, query: CandidateQuery) -> Parts | None:
    """Return what each provider gives, in the first combination that uses the host itself. None if there is none."""
    own = own_uuids(host)
    options = SearchOptions(at_most=WAYS_TRIED, roots=frozenset({_root_of(host)}))
    for request in find(host.tree, replace(query, limit=None), options).requests:
        if own & request.resources_by_provider.keys():
            return request.resources_by_provider
    return None


def own_uuids(host: HostState) -> frozenset[str]:
    """Return the providers of the host's tree, without those that only share with it."""
    root = _root_of(host)
    return frozenset(node.uuid for node in host.tree if (node.root_uuid or node.uuid) == root)


def with_tree(host: HostState, tree: tuple[ProviderNode, ...]) -> HostState:
    """Return the host with these providers. Its sizes become their sums; units stay those of each provider."""
    sums = _sums(tree)
    changes: dict[str, Any] = {
        "tree": tree,
        "units": (),
        "amounts": {name: amount for name, amount in sums.items() if name not in STANDARD},
    }
    for name, (size, ratio) in STANDARD.items():
        amount = sums.get(name, NONE_OF_IT)
        changes |= {
            size: amount.total,
            f"{size}_used": amount.used,
            f"reserved_{size}": amount.reserved,
            ratio: amount.allocation_ratio,
        }
    return replace(host, **changes)


def with_taken(host: HostState, parts: Parts, times: int = 1) -> HostState:
    """Return the host after `parts` were taken of its providers. With `times` -1 they are given back."""
    return with_tree(host, tuple(_taken(node, parts.get(node.uuid, {}), times) for node in host.tree))


def sharing_rows(hosts: HostTable, taken_at: int, parts: Parts) -> Iterator[int]:
    """Yield the other hosts that share a provider from which the host in row `taken_at` took something."""
    shared = parts.keys() - own_uuids(hosts.states[taken_at])
    trees = rows_of(hosts) if shared else None
    if trees is None:
        return
    for row in map(int, np.flatnonzero(trees)):
        if row != taken_at and any(node.uuid in shared for node in hosts.states[row].tree):
            yield row


def is_in(host: HostState, aggregates: frozenset[str]) -> bool:
    """Whether the host, or any of its providers, is in one of the aggregates."""
    return bool(host.aggregates & aggregates) or any(node.aggregates & aggregates for node in host.tree)


def _is_tree(host: HostState) -> bool:
    return bool(host.tree)


def _root_of(host: HostState) -> str:
    return next((node.root_uuid or node.uuid for node in host.tree if node.uuid == host.provider_uuid), "")


def _shape(host: HostState) -> Hashable:
    """Return a key that is equal for hosts with equivalent trees and contents of providers, whatever their names."""
    places = {node.uuid: place for place, node in enumerate(host.tree)}
    return (
        places.get(host.provider_uuid),
        tuple(
            (
                places.get(node.parent_uuid or ""),
                places.get(node.root_uuid or node.uuid),
                node.traits,
                node.aggregates,
                tuple(sorted((name, amount) for name, amount in node.amounts.items())),
            )
            for node in host.tree
        ),
    )


def _sums(tree: tuple[ProviderNode, ...]) -> dict[str, Amount]:
    """Return the sums of all providers. The ratio makes the capacity exactly the sum of their capacities."""
    found: dict[str, list[Amount]] = {}
    for node in tree:
        for name, amount in node.amounts.items():
            found.setdefault(name, []).append(amount)
    return {name: amounts[0] if len(amounts) == 1 else _sum(amounts) for name, amounts in found.items()}


def _sum(amounts: list[Amount]) -> Amount:
    total, reserved = sum(one.total for one in amounts), sum(one.reserved for one in amounts)
    ratios = {one.allocation_ratio for one in amounts}
    mixed = sum(one.capacity for one in amounts) / (total - reserved) if total > reserved else 1.0
    return Amount(
        total=total,
        reserved=reserved,
        allocation_ratio=ratios.pop() if len(ratios) == 1 else mixed,
        used=sum(one.used for one in amounts),
    )


def _taken(node: ProviderNode, amounts: Mapping[str, int], times: int) -> ProviderNode:
    if not amounts:
        return node
    left = {
        name: replace(amount, used=amount.used + times * amounts.get(name, 0)) for name, amount in node.amounts.items()
    }
    return replace(node, amounts=frozen(left))
