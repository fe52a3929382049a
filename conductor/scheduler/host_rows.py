"""One host's row of the table: what its cell, placement, its aggregates and its inside say, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor.core.frozen import FrozenDict
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import MOST, Amount
from conductor.core.placement.forest import ProviderNode
from conductor.core.scheduling.host_trees import STANDARD, with_tree
from conductor.placement.hardware import NOTHING, Inside
from conductor.placement.providers import ProviderState
from conductor.scheduler.cell_facts import NodeFacts, ServiceFacts

DEFAULT_ZONE = "nova"
ZONE_KEY = "availability_zone"
NONE_OF_IT = Amount(0)
NOTHING_ELSE: Mapping[str, Amount] = FrozenDict()
FREE_UNITS = (1, MOST, 1)

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
    values = {
        **_identity(sources),
        **_room(sources.provider),
        **_service(sources.service),
        **_aggregates(sources),
        "num_instances": sources.provider.num_consumers
        if sources.num_tree_consumers is None
        else sources.num_tree_consumers,
        "num_io_ops": sources.num_io_ops,
        "failed_builds": sources.failed_builds,
        "image_properties": sources.image_properties,
        "topology": sources.inside[0],
        "pci_pools": sources.inside[1],
    }
    state = HostState(**values)
    return with_tree(state, sources.tree) if sources.tree else state


def _identity(sources: Sources) -> dict[str, Any]:
    node = sources.node
    return {
        "host": node.host,
        "node": node.node,
        "cell": sources.cell,
        "provider_uuid": node.uuid,
        "host_ip": node.host_ip,
        "is_simulated": node.is_simulated,
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "supported_instances": node.supported_instances,
        "capabilities": node.capabilities,
        "disk_available_least_gb": node.disk_available_least_gb,
        "metrics": node.metrics,
    }


def _room(provider: ProviderState) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traits": provider.traits,
        "units": _units(provider),
        "amounts": {name: amount for name, amount in provider.amounts.items() if name not in STANDARD} or NOTHING_ELSE,
    }
    for name, (size, ratio) in STANDARD.items():
        amount = provider.amounts.get(name, NONE_OF_IT)
        found |= {
            size: amount.total,
            f"{size}_used": amount.used,
            f"reserved_{size}": amount.reserved,
            ratio: amount.allocation_ratio,
        }
    return found


def _service(service: ServiceFacts) -> dict[str, Any]:
    return {
        "is_up": service.is_up,
        "is_disabled": service.is_disabled,
        "disabled_reason": service.disabled_reason,
    }


def _aggregates(sources: Sources) -> dict[str, Any]:
    metadata = sources.membership.metadata
    return {
        "aggregates": sources.membership.aggregates | sources.provider.aggregates,
        "aggregate_metadata": metadata,
        "availability_zone": min(metadata.get(ZONE_KEY, ()), default=DEFAULT_ZONE),
    }


def _units(provider: ProviderState) -> tuple[tuple[str, int, int, int], ...]:
    """Only what binds: hosts without any rule of their own then share one value."""
    rules = ((name, amount.min_unit, amount.max_unit, amount.step_size) for name, amount in provider.amounts.items())
    return tuple(sorted(rule for rule in rules if rule[1:] != FREE_UNITS))
