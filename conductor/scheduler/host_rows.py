"""One host's row of the table: what its cell, placement, its aggregates and its inside say, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, NamedTuple

from conductor.core.frozen import FrozenDict, frozen
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
Units = tuple[tuple[str, int, int, int], ...]
Metadata = Mapping[str, frozenset[str]]
NO_METADATA: Metadata = FrozenDict()


@dataclass(frozen=True, slots=True)
class Membership:
    """A host's aggregates: their uuids, and the values that each key of their metadata has."""

    aggregates: frozenset[str] = frozenset()
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)


class Sources(NamedTuple):
    """All that is known of one node, by who said it."""

    node: NodeFacts
    provider: ProviderState
    cell: str
    service: ServiceFacts
    closed_reason: str | None = None  # where its cell is closed
    num_io_ops: int = 0
    failed_builds: int = 0
    image_properties: Mapping[tuple[str, str], int] = FrozenDict()
    membership: Membership = Membership()
    inside: Inside = NOTHING
    tree: tuple[ProviderNode, ...] = ()
    num_tree_consumers: int | None = None  # where the provider is not alone in its tree


def row_of(sources: Sources) -> HostState:
    """Field by field and without dicts between: a scheduler that starts makes one of each host that there is."""
    node, provider, service, metadata = sources.node, sources.provider, sources.service, sources.membership.metadata
    consumers = sources.num_tree_consumers
    draft = _Draft(
        host=node.host,
        node=node.node,
        cell=sources.cell,
        provider_uuid=node.uuid,
        availability_zone=min(metadata[ZONE_KEY], default=DEFAULT_ZONE) if ZONE_KEY in metadata else DEFAULT_ZONE,
        disk_available_least_gb=node.disk_available_least_gb,
        is_up=service.is_up,
        is_disabled=service.is_disabled,
        disabled_reason=service.disabled_reason,
        is_cell_closed=sources.closed_reason is not None,
        cell_closed_reason=sources.closed_reason or "",
        is_simulated=node.is_simulated,
        num_instances=provider.num_consumers if consumers is None else consumers,
        num_io_ops=sources.num_io_ops,
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        supported_instances=node.supported_instances,
        traits=provider.traits,
        aggregate_metadata=frozen(metadata),
        capabilities=frozen(node.capabilities),
        aggregates=_together(sources.membership.aggregates, provider.aggregates),
        host_ip=node.host_ip,
        failed_builds=sources.failed_builds,
        metrics=frozen(node.metrics),
        image_properties=frozen(sources.image_properties),
        topology=sources.inside[0],
        pci_pools=sources.inside[1],
    )
    _measure(draft, provider.amounts)
    draft.__class__ = HostState
    state: HostState = draft
    return with_tree(state, sources.tree) if sources.tree else state


# A state while it is written: the same slots, which no lock keeps shut. A frozen one costs a call for each field.
# Its mappings have to be frozen by who writes them. What is not written here is of nobody yet.
_Draft: Any = make_dataclass(
    "_Draft", [(one.name, Any, _OF_NOBODY.get(one.name)) for one in fields(HostState)], slots=True
)


def _measure(draft: Any, amounts: Mapping[str, Amount]) -> None:
    """What there is of everything; the sizes as `STANDARD` calls them, which `with_tree` goes by."""
    cpu, memory, disk = [amounts.get(name, NONE_OF_IT) for name in STANDARD]
    draft.vcpus, draft.vcpus_used = cpu.total, cpu.used
    draft.reserved_vcpus, draft.cpu_ratio = cpu.reserved, cpu.allocation_ratio
    draft.memory_mb, draft.memory_mb_used = memory.total, memory.used
    draft.reserved_memory_mb, draft.ram_ratio = memory.reserved, memory.allocation_ratio
    draft.disk_gb, draft.disk_gb_used = disk.total, disk.used
    draft.reserved_disk_gb, draft.disk_ratio = disk.reserved, disk.allocation_ratio
    draft.units, draft.amounts = _beside_sizes(amounts)


def _beside_sizes(amounts: Mapping[str, Amount]) -> tuple[Units, Mapping[str, Amount]]:
    """The rules of asking, only those that bind: hosts without any of their own share one value. And other classes."""
    binding = [
        (name, amount.min_unit, amount.max_unit, amount.step_size)
        for name, amount in amounts.items()
        if amount.min_unit != 1 or amount.max_unit != MOST or amount.step_size != 1
    ]
    units: Units = tuple(sorted(binding)) if binding else ()
    if amounts.keys() <= STANDARD.keys():
        return units, NOTHING_ELSE
    return units, frozen({name: amount for name, amount in amounts.items() if name not in STANDARD})


def _together(ours: frozenset[str], placements: frozenset[str]) -> frozenset[str]:
    """The same object for hosts that are in the same aggregates, where it can be."""
    return ours if placements <= ours else ours | placements
