"""The first links of the pipeline, which are no plugins: room, requested hosts, requested zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.placement.query import CandidateQuery
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import provider_answers
from conductor.core.scheduling.needs import Needs, amounts_of, needs_of
from conductor.core.scheduling.provider_answers import free_of
from conductor.core.verdict import PASS, Verdict, reject

# Resource class → column of free amounts, word, unit.
CLASSES: Mapping[str, tuple[str, str, str]] = {
    "VCPU": ("free_vcpus", "vCPUs", "vCPU"),
    "MEMORY_MB": ("free_memory_mb", "memory", "MB"),
    "DISK_GB": ("free_disk_gb", "disk", "GB"),
}


class Placement(Filter):
    """What placement must give out, by traits and aggregates too. `needs` spares working them out each time.

    A host that counts the CPUs that it pins apart answers the first question, one that does not yet the second.
    """

    name = "placement"

    def __init__(self, needs: Needs | None = None) -> None:
        self.needs = needs

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if spec.is_rebuild:  # it stays where it is and takes nothing more
            return hosts.everyone
        first, *others = self._queries(spec)
        mask = provider_answers.answers(hosts, first)
        for query in others:
            mask |= provider_answers.answers(hosts, query)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.is_rebuild:
            return PASS
        queries = self._queries(spec)
        if any(provider_answers.can_answer(host, query) for query in queries):
            return PASS
        return _why_not(host, queries[0])

    def _queries(self, spec: RequestSpec) -> tuple[CandidateQuery, ...]:
        return (self.needs or needs_of(spec)).queries


class OpenCells(Filter):
    """Not the hosts of cells that operators closed to new servers. Asked only where there are any."""

    name = "closed_cells"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return ~hosts.is_cell_closed

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not host.is_cell_closed:
            return PASS
        return reject(
            f"cell {host.cell} is closed to new servers", need="an open cell", have=host.cell_closed_reason or "closed"
        )


class RequestedCell(Filter):
    """The cell that the request names, where it may not leave it."""

    name = "requested_cell"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not spec.requested_cell or spec.allows_cross_cell_move:
            return hosts.everyone
        return hosts.factor("cell").mask(lambda cell: cell == spec.requested_cell)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not spec.requested_cell or spec.allows_cross_cell_move or host.cell == spec.requested_cell:
            return PASS
        return reject("another cell was asked for", need=spec.requested_cell, have=host.cell)


class RequestedHosts(Filter):
    """The hosts and nodes that the request names, without those that it must not use.

    Forced and excluded hosts are found whatever their letters' case, as operators type them.
    """

    name = "requested_hosts"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.mask_of((spec.requested_host,)) if spec.requested_host else hosts.everyone
        if spec.ignore_hosts:
            mask = mask & ~_named(hosts, spec.ignore_hosts)
        if spec.force_hosts:
            mask = mask & _named(hosts, spec.force_hosts)
        for nodes in filter(None, ((spec.requested_node,) if spec.requested_node else (), spec.force_nodes)):
            mask = mask & np.fromiter((state.node in nodes for state in hosts.states), np.bool_, len(hosts))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.requested_host not in ("", host.host):
            return reject("another host was asked for", need=spec.requested_host, have=host.host)
        if _is_among(host.host, spec.ignore_hosts):
            return reject("this host must not be used", have=host.host)
        if spec.force_hosts and not _is_among(host.host, spec.force_hosts):
            return reject("another host was asked for", need=", ".join(spec.force_hosts), have=host.host)
        if spec.requested_node not in ("", host.node):
            return reject("another node was asked for", need=spec.requested_node, have=host.node)
        if spec.force_nodes and host.node not in spec.force_nodes:
            return reject("another node was asked for", need=", ".join(spec.force_nodes), have=host.node)
        return PASS


def targets_of(hosts: HostTable, spec: RequestSpec) -> list[int] | None:
    """The rows that the request as a whole aims at by name; None where it aims at none in particular."""
    host = spec.requested_host or next(iter(spec.force_hosts), "")
    node = spec.requested_node or next(iter(spec.force_nodes), "")
    if not (host or node):
        return None
    rows = hosts.rows_of((host,)) if host else range(len(hosts))
    found = [row for row in rows if node in ("", hosts.states[row].node)]
    if spec.requested_cell:
        found = [row for row in found if hosts.states[row].cell == spec.requested_cell]
    return found if host else found[:1]


class MoveRange(Filter):
    """Where a guest that exists already can go: its cell, its kind of hypervisor, a driver that takes it over."""

    name = "move_range"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        move = spec.move
        if move is None:
            return hosts.everyone
        mask = hosts.factor("cell").mask(lambda cell: cell == move.cell)
        if move.hypervisor_type:
            mask &= hosts.factor("hypervisor_type").mask(lambda kind: kind == move.hypervisor_type)
        if move.capability:
            mask &= hosts.factor("actions", actions_of).mask(lambda actions: move.capability in actions)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        move = spec.move
        if move is None:
            return PASS
        if host.cell != move.cell:
            return reject("a server stays in its cell", need=move.cell, have=host.cell)
        if move.hypervisor_type not in ("", host.hypervisor_type):
            return reject("another kind of hypervisor", need=move.hypervisor_type, have=host.hypervisor_type)
        if move.capability and move.capability not in actions_of(host):
            return reject("the host's driver cannot take it over", need=move.capability, have="not there")
        return PASS


class RequestedZone(Filter):
    """The zone asked for. Stands in where the operator's list has no filter of this name."""

    name = "AvailabilityZoneFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not spec.availability_zone:
            return hosts.everyone
        return hosts.factor("availability_zone").mask(lambda zone: zone == spec.availability_zone)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.availability_zone in ("", host.availability_zone):
            return PASS
        return reject("another zone was asked for", need=spec.availability_zone, have=host.availability_zone)


def actions_of(host: HostState) -> frozenset[str]:
    """What the host's driver said that it can do (names of core.compute_driver.CAPABILITIES)."""
    return frozenset(host.capabilities.get("actions", ()))


def shortfall_of(host: HostState, spec: RequestSpec) -> float:
    """The largest part of any need that the host lacks, between 0 and above: 0.5 is half of it."""
    needs = needs_of(spec).resources
    return max((1 - free_of(host, name) / amount for name, amount in needs.items()), default=0.0)


def _named(hosts: HostTable, names: Sequence[str]) -> Mask:
    """The rows of the named hosts; only names that nobody has just so are looked for in other letters."""
    mask = hosts.mask_of(names)
    if all(hosts.rows_of((name,)) for name in names):
        return mask
    return mask | np.fromiter((_is_among(state.host, names) for state in hosts.states), np.bool_, len(hosts))


def _is_among(name: str, names: Sequence[str]) -> bool:
    return name in names or name.lower() in {one.lower() for one in names}


def _why_not(host: HostState, query: CandidateQuery) -> Verdict:
    """Why a host cannot answer: too little first, then amounts that it cannot give at once, then what it is not."""
    if provider_answers.asks_several(query) and not host.tree:
        return reject("groups of resources must come from different providers, and the host is one")
    asked = amounts_of(query)
    short = [(name, amount) for name, amount in asked.items() if free_of(host, name) < amount]
    if short:
        words = " and ".join(CLASSES[name][1] if name in CLASSES else name for name, _ in short)
        return reject(
            f"not enough {words}",
            need=", ".join(_amount(name, amount) for name, amount in short),
            have=", ".join(_amount(name, max(free_of(host, name), 0)) + " free" for name, _ in short),
        )
    if host.tree:
        return _why_not_together(host, query)
    wrong = provider_answers.wrong_units(host.units, provider_answers.parts_of(query))
    if wrong:
        name, least, most, step = wrong
        word = CLASSES[name][1] if name in CLASSES else name
        return reject(
            f"cannot give that amount of {word} at once",
            need=_amount(name, asked[name]),
            have=f"{least} to {most} in steps of {step}",
        )
    missing = provider_answers.missing_traits(host.traits, query)
    if missing:
        return reject("the host lacks a trait", need=", ".join(missing), have="not there")
    unwanted = provider_answers.unwanted_traits(host.traits, query)
    if unwanted:
        return reject("the host has a trait that is not wanted", need="without " + ", ".join(unwanted), have="there")
    if not provider_answers.is_member(host.aggregates, query):
        return reject("the host is not in the aggregates that the request may use")
    return reject("another host was asked for", have=host.host)


def _why_not_together(host: HostState, query: CandidateQuery) -> Verdict:
    """Why the providers of a host give not all of it, although there is enough: what none of them is, or what its
    root is and must not be."""
    missing = provider_answers.missing_traits(host.traits.union(*(node.traits for node in host.tree)), query)
    if missing:
        return reject("no provider of the host has a trait", need=", ".join(missing), have="not there")
    unwanted = sorted(query.root_forbidden & host.traits)
    if unwanted:
        return reject("the host has a trait that is not wanted", need="without " + ", ".join(unwanted), have="there")
    return reject("the host's providers do not give all of it together")


def _amount(resource_class: str, amount: float) -> str:
    unit = CLASSES[resource_class][2] if resource_class in CLASSES else resource_class
    return f"{amount:.10g} {unit}"
