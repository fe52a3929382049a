"""One host's row of the table: what its cell, placement, its aggregates and its inside say, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from conductor.core.frozen import FrozenDict
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import MOST, Amount
from conductor.core.placement.forest import ProviderNode
from conductor.core.scheduling.host_trees import STANDARD, with_tree
from conductor.placement.hardware import NOTHING, Inside
from conductor.placement.provider_states import ProviderState
from conductor.scheduler.cell_facts import ServiceFacts
from conductor.scheduler.node_facts import NodeFacts

DEFAULT_ZONE = "nova"
ZONE_KEY = "availability_zone"
NONE_OF_IT = Amount(0)
NOTHING_ELSE: Mapping[str, Amount] = FrozenDict()

# What is worked out later.
_OF_NOBODY: Mapping[str, Any] = {"tree": (), "drift_vcpus": 0, "drift_memory_mb": 0, "drift_disk_gb": 0}
_PUT: Mapping[str, Callable[[HostState, Any], None]] = {
    one.name: getattr(HostState, one.name).__set__ for one in fields(HostState)
}
Units = tuple[tuple[str, int, int, int], ...]
Metadata = Mapping[str, frozenset[str]]
NO_METADATA: Metadata = FrozenDict()


@dataclass(frozen=True, slots=True)
class Membership:
    """A host's aggregates: their uuids, and the values that each key of their metadata has."""

    aggregates: frozenset[str] = frozenset()
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Sources:
    """All that is known of one node, by who said it."""

    node: NodeFacts
    provider: ProviderState
    cell: str
    service: ServiceFacts
    num_io_ops: int = 0
    failed_builds: int = 0
    image_properties: Mapping[tuple[str, str], int] = field(default_factory=dict)
    membership: Membership = Membership()
    inside: Inside = NOTHING
    tree: tuple[ProviderNode, ...] = ()
    num_tree_consumers: int | None = None  # where the provider is not alone in its tree


def row_of(sources: Sources) -> HostState:
    """Field by field and without dicts between: a scheduler that starts makes one of each host that there is."""
    node, provider, service, metadata = sources.node, sources.provider, sources.service, sources.membership.metadata
    amounts = provider.amounts
    cpu, memory, disk = (amounts.get(name, NONE_OF_IT) for name in STANDARD)
    units, others = _beside_sizes(amounts)
    consumers = sources.num_tree_consumers
    state = _made(
        host=node.host,
        node=node.node,
        cell=sources.cell,
        provider_uuid=node.uuid,
        availability_zone=min(metadata[ZONE_KEY], default=DEFAULT_ZONE) if ZONE_KEY in metadata else DEFAULT_ZONE,
        **_room(cpu, memory, disk),
        disk_available_least_gb=node.disk_available_least_gb,
        is_up=service.is_up,
        is_disabled=service.is_disabled,
        disabled_reason=service.disabled_reason,
        is_simulated=node.is_simulated,
        num_instances=provider.num_consumers if consumers is None else consumers,
        num_io_ops=sources.num_io_ops,
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        supported_instances=node.supported_instances,
        traits=provider.traits,
        aggregate_metadata=metadata,
        capabilities=node.capabilities,
        units=units,
        amounts=others,
        aggregates=_together(sources.membership.aggregates, provider.aggregates),
        host_ip=node.host_ip,
        failed_builds=sources.failed_builds,
        metrics=node.metrics,
        image_properties=sources.image_properties,
        topology=sources.inside[0],
        pci_pools=sources.inside[1],
        **_OF_NOBODY,
    )
    return with_tree(state, sources.tree) if sources.tree else state


def _made(**values: Any) -> HostState:
    """A state without the call for each field by which frozen ones are set: that took half of the time."""
    state = HostState.__new__(HostState)
    for name, value in values.items():
        _PUT[name](state, value)
    state.__post_init__()
    return state


def _room(cpu: Amount, memory: Amount, disk: Amount) -> dict[str, Any]:
    """As `STANDARD` calls them, which `with_tree` goes by."""
    return {
        "vcpus": cpu.total,
        "vcpus_used": cpu.used,
        "reserved_vcpus": cpu.reserved,
        "cpu_ratio": cpu.allocation_ratio,
        "memory_mb": memory.total,
        "memory_mb_used": memory.used,
        "reserved_memory_mb": memory.reserved,
        "ram_ratio": memory.allocation_ratio,
        "disk_gb": disk.total,
        "disk_gb_used": disk.used,
        "reserved_disk_gb": disk.reserved,
        "disk_ratio": disk.allocation_ratio,
    }


def _beside_sizes(amounts: Mapping[str, Amount]) -> tuple[Units, Mapping[str, Amount]]:
    """The rules of asking, only those that bind: hosts without any of their own share one value. And other classes."""
    units = []
    for name, amount in amounts.items():
        if amount.min_unit != 1 or amount.max_unit != MOST or amount.step_size != 1:
            units.append((name, amount.min_unit, amount.max_unit, amount.step_size))
    if amounts.keys() <= STANDARD.keys():
        return tuple(sorted(units)), NOTHING_ELSE
    others = {name: amount for name, amount in amounts.items() if name not in STANDARD}
    return tuple(sorted(units)), others


def _together(ours: frozenset[str], placements: frozenset[str]) -> frozenset[str]:
    """The same object for hosts that are in the same aggregates, where it can be."""
    return ours if placements <= ours else ours | placements
