"""Built-in filters at the head of the pipeline: room, requested hosts, requested zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import Message, all_of, message, several, word
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
    """Compute the resources, traits and aggregates to request from placement. needs caches the result.

    A host that counts its pinned CPUs separately can satisfy the first query, others the second.
    """

    name = "placement"

    def __init__(self, needs: Needs | None = None) -> None:
        self.needs = needs

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if spec.is_rebuild:  # it stays on its host and takes no more resources
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
    """Drop hosts in disabled cells. Used only when a cell is disabled."""

    name = "closed_cells"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return ~hosts.is_cell_closed

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not host.is_cell_closed:
            return PASS
        return reject(
            message("reject.cell_closed", cell=host.cell),
            need=word("an open cell"),
            have=host.cell_closed_reason or word("closed"),
        )


class RequestedCell(Filter):
    """Keep hosts in the cell that the request must stay in."""

    name = "requested_cell"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not spec.requested_cell or spec.allows_cross_cell_move:
            return hosts.everyone
        return hosts.factor("cell").mask(lambda cell: cell == spec.requested_cell)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not spec.requested_cell or spec.allows_cross_cell_move or host.cell == spec.requested_cell:
            return PASS
        return reject(message("reject.other_cell"), need=spec.requested_cell, have=host.cell)


class RequestedHosts(Filter):
    """Keep the hosts and nodes that the request names, and drop the hosts that it excludes.

    Forced and excluded hosts are matched ignoring case, as operators type them.
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
            return reject(message("reject.other_host"), need=spec.requested_host, have=host.host)
        if _is_among(host.host, spec.ignore_hosts):
            return reject(message("reject.excluded_host"), have=host.host)
        if spec.force_hosts and not _is_among(host.host, spec.force_hosts):
            return reject(message("reject.other_host"), need=", ".join(spec.force_hosts), have=host.host)
        if spec.requested_node not in ("", host.node):
            return reject(message("reject.other_node"), need=spec.requested_node, have=host.node)
        if spec.force_nodes and host.node not in spec.force_nodes:
            return reject(message("reject.other_node"), need=", ".join(spec.force_nodes), have=host.node)
        return PASS


def targets_of(hosts: HostTable, spec: RequestSpec) -> list[int] | None:
    """Return the rows that the request names for all its instances; None where it names none."""
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
    """Keep hosts that an existing server can move to: same cell, hypervisor type, and a compatible driver."""

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
            return reject(message("reject.leaves_cell"), need=move.cell, have=host.cell)
        if move.hypervisor_type not in ("", host.hypervisor_type):
            return reject(message("reject.hypervisor_type"), need=move.hypervisor_type, have=host.hypervisor_type)
        if move.capability and move.capability not in actions_of(host):
            return reject(message("reject.cannot_take_over"), need=move.capability, have=word("not there"))
        return PASS


class RequestedZone(Filter):
    """Keep hosts in the requested zone. Used when the filter of this name isn't enabled."""

    name = "AvailabilityZoneFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not spec.availability_zone:
            return hosts.everyone
        return hosts.factor("availability_zone").mask(lambda zone: zone == spec.availability_zone)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.availability_zone in ("", host.availability_zone):
            return PASS
        return reject(message("reject.other_zone"), need=spec.availability_zone, have=host.availability_zone)


def actions_of(host: HostState) -> frozenset[str]:
    """Return the capabilities that the host's driver reported (names of core.compute_driver.CAPABILITIES)."""
    return frozenset(host.capabilities.get("actions", ()))


def shortfall_of(host: HostState, spec: RequestSpec) -> float:
    """Return the largest share of any need that the host lacks. 0.5 means that half of a need is missing."""
    needs = needs_of(spec).resources
    return max((1 - free_of(host, name) / amount for name, amount in needs.items()), default=0.0)


def _named(hosts: HostTable, names: Sequence[str]) -> Mask:
    """Return the rows of the named hosts; names without an exact match are matched ignoring case."""
    mask = hosts.mask_of(names)
    if all(hosts.rows_of((name,)) for name in names):
        return mask
    return mask | np.fromiter((_is_among(state.host, names) for state in hosts.states), np.bool_, len(hosts))


def _is_among(name: str, names: Sequence[str]) -> bool:
    return name in names or name.lower() in {one.lower() for one in names}


def _why_not(host: HostState, query: CandidateQuery) -> Verdict:
    """Return why the host fails the query: first shortages, then unit rules, then traits and aggregates."""
    if provider_answers.asks_several(query) and not host.tree:
        return reject(message("reject.several_providers"))
    requested = amounts_of(query)
    short = [(name, amount) for name, amount in requested.items() if free_of(host, name) < amount]
    if short:
        return reject(
            message("reject.not_enough", what=all_of([_word(name) for name, _ in short])),
            need=several([_amount(name, amount) for name, amount in short]),
            have=several(
                [message("have.free", amount=_amount(name, max(free_of(host, name), 0))) for name, _ in short]
            ),
        )
    if host.tree:
        return _why_not_together(host, query)
    wrong = provider_answers.wrong_units(host.units, provider_answers.parts_of(query))
    if wrong:
        name, least, most, step = wrong
        return reject(
            message("reject.wrong_unit", what=_word(name)),
            need=_amount(name, requested[name]),
            have=message("have.steps", least=least, most=most, step=step),
        )
    missing = provider_answers.missing_traits(host.traits, query)
    if missing:
        return reject(message("reject.trait_missing"), need=", ".join(missing), have=word("not there"))
    unwanted = provider_answers.unwanted_traits(host.traits, query)
    if unwanted:
        return _with_forbidden(unwanted)
    if not provider_answers.is_member(host.aggregates, query):
        return reject(message("reject.not_in_aggregates"))
    return reject(message("reject.other_host"), have=host.host)


def _why_not_together(host: HostState, query: CandidateQuery) -> Verdict:
    """Return why a host's providers fail the query although they have enough resources.

    The reason is the traits of its providers, or those of the root.
    """
    missing = provider_answers.missing_traits(host.traits.union(*(node.traits for node in host.tree)), query)
    if missing:
        return reject(message("reject.provider_trait_missing"), need=", ".join(missing), have=word("not there"))
    unwanted = sorted(query.root_forbidden & host.traits)
    if unwanted:
        return _with_forbidden(unwanted)
    return reject(message("reject.not_together"))


def _with_forbidden(traits: Sequence[str]) -> Verdict:
    return reject(message("reject.trait_forbidden"), need=message("need.without", names=traits), have=word("there"))


def _word(resource_class: str) -> str:
    return word(CLASSES[resource_class][1]) if resource_class in CLASSES else resource_class


def _amount(resource_class: str, amount: float) -> Message:
    unit = CLASSES[resource_class][2] if resource_class in CLASSES else resource_class
    return message("amount", amount=int(amount) if float(amount).is_integer() else amount, unit=unit)
