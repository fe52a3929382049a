"""Facts about hosts from the cells and placement: read in full once, then incrementally."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, Max, Q, QuerySet

from conductor.cell_db import build_failures
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core import image_properties
from conductor.core.frozen import FrozenDict, frozen
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import MOST, Amount
from conductor.core.placement.forest import ProviderNode
from conductor.core.scheduling.host_trees import STANDARD, with_tree
from conductor.core.states import VmState
from conductor.db.transactions import database_now
from conductor.placement.changes import ProviderState
from conductor.placement.hardware import NOTHING, Inside
from conductor.scheduler import node_facts
from conductor.scheduler.node_facts import NodeFacts

BINARY = "nova-compute"
Property = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """State of a host's service: whether it is up, and whether it is open for new servers."""

    is_up: bool = True
    is_disabled: bool = False
    disabled_reason: str = ""


WELL = ServiceFacts()
UNHEARD = ServiceFacts(is_up=False)


@dataclass(frozen=True)
class CellFacts:
    """Facts of one cell.

    Attributes:
        unwell: The services that are not both up and open.
        io_ops: Builds in progress, by host.
        failed_builds: Builds that failed in a row, by host.
        image_properties: Instances, by image property and value, by host.
        newest, services: The positions up to which the cell was read.
    """

    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    unwell: Mapping[str, ServiceFacts] = field(default_factory=dict)
    service_hosts: frozenset[str] = frozenset()
    io_ops: Mapping[str, int] = field(default_factory=dict)
    failed_builds: Mapping[str, int] = field(default_factory=dict)
    image_properties: Mapping[str, Mapping[Property, int]] = field(default_factory=dict)
    newest: int = -1
    services: tuple[int, int] = (0, 0)

    def service_of(self, host: str) -> ServiceFacts:
        if host not in self.service_hosts:
            return UNHEARD
        return self.unwell.get(host, WELL)


def read(alias: str, known: CellFacts, *, counts_io_ops: bool, counts_images: bool = False) -> CellFacts:
    """Read the cell's facts. Data that `known` has already are not read again.

    `counts_io_ops` counts builds anew. `counts_images` counts the images of all instances, which is expensive.
    """
    newest, count = _newest_node(alias)
    services = _services(alias)
    return CellFacts(
        nodes=_nodes(alias, known, newest, count),
        unwell=_unwell(alias),
        service_hosts=known.service_hosts if services == known.services else _service_hosts(alias),
        io_ops=dict(building(alias)) if counts_io_ops else known.io_ops,
        failed_builds=build_failures.in_a_row(alias) if counts_io_ops else known.failed_builds,
        image_properties=_image_properties(alias) if counts_images else known.image_properties,
        newest=newest,
        services=services,
    )


def is_open(alias: str, host: str) -> bool:
    """Whether one host is up and takes new instances now."""
    services = Service.objects.using(alias).filter(binary=BINARY, host=host, is_forced_down=False, is_disabled=False)
    return services.exclude(last_seen_at__lt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)).exists()


def _nodes(alias: str, known: CellFacts, newest: int, count: int) -> Mapping[str, NodeFacts]:
    """Return the nodes; the same mapping object where nothing changed."""
    if newest == known.newest and count == len(known.nodes):
        return known.nodes
    if known.nodes and newest > known.newest:
        nodes = {**known.nodes, **node_facts.read(alias, since=known.newest)}
        if len(nodes) == count:
            return nodes
    return node_facts.read(alias)


def _newest_node(alias: str) -> tuple[int, int]:
    found = ComputeNode.objects.using(alias).aggregate(newest=Max("change_number"), count=Count("pk"))
    return (-1 if found["newest"] is None else found["newest"]), found["count"]


def _services(alias: str) -> tuple[int, int]:
    found = Service.objects.using(alias).filter(binary=BINARY).aggregate(count=Count("pk"), newest=Max("pk"))
    return found["count"], found["newest"] or 0


def _service_hosts(alias: str) -> frozenset[str]:
    return frozenset(Service.objects.using(alias).filter(binary=BINARY).values_list("host", flat=True))


def _unwell(alias: str) -> dict[str, ServiceFacts]:
    """Return the services that are not both up and open, by the database's clock. Only these few rows are read."""
    is_unresponsive = Q(last_seen_at__lt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS))
    services = Service.objects.using(alias).filter(binary=BINARY)
    unresponsive = set(services.filter(is_unresponsive | Q(is_forced_down=True)).values_list("host", flat=True))
    disabled = dict(services.filter(is_disabled=True).values_list("host", "disabled_reason"))
    return {
        host: ServiceFacts(host not in unresponsive, host in disabled, disabled.get(host) or "")
        for host in unresponsive | disabled.keys()
    }


def building(alias: str) -> QuerySet[Instance, tuple[str, int]]:
    """Return host and number of builds in progress there. An index of states avoids reading other instances."""
    rows = Instance.objects.using(alias).alive().filter(vm_state=VmState.BUILDING, host__isnull=False)
    return rows.values_list("host").annotate(count=Count("pk"))


def _image_properties(alias: str) -> dict[str, Counter[Property]]:
    """Return, per host, how many instances have an image with a property of that value."""
    found: defaultdict[str, Counter[Property]] = defaultdict(Counter)
    instances = Instance.objects.using(alias).alive().filter(host__isnull=False)
    for host, properties in instances.values_list("host", "image__properties").iterator():
        found[str(host)].update(image_properties.counted(properties or {}))
    return dict(found)


DEFAULT_ZONE = "nova"
ZONE_KEY = "availability_zone"
NONE_OF_IT = Amount(0)
NOTHING_ELSE: Mapping[str, Amount] = FrozenDict()

# Computed later.
_DEFAULTS: Mapping[str, Any] = {"tree": (), "drift_vcpus": 0, "drift_memory_mb": 0, "drift_disk_gb": 0}
Units = tuple[tuple[str, int, int, int], ...]
Metadata = Mapping[str, frozenset[str]]
NO_METADATA: Metadata = FrozenDict()


@dataclass(frozen=True, slots=True)
class HostAggregates:
    """A host's aggregates: their uuids, and the values of each metadata key."""

    aggregates: frozenset[str] = frozenset()
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)


class Sources(NamedTuple):
    """All facts about one node, by their source."""

    node: NodeFacts
    provider: ProviderState
    cell: str
    service: ServiceFacts
    closed_reason: str | None = None  # where its cell is closed
    num_io_ops: int = 0
    failed_builds: int = 0
    image_properties: Mapping[tuple[str, str], int] = FrozenDict()
    membership: HostAggregates = HostAggregates()
    inside: Inside = NOTHING
    tree: tuple[ProviderNode, ...] = ()
    num_tree_consumers: int | None = None  # where the provider is not alone in its tree


def row_of(sources: Sources) -> HostState:
    """Build the host's state. It avoids intermediate dicts, as a starting scheduler builds a state for every host."""
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


# A mutable state with the same slots. A frozen one costs a call for each field.
# Its mappings have to be frozen by the code that sets them. Other fields follow later.
_Draft: Any = make_dataclass(
    "_Draft", [(one.name, Any, _DEFAULTS.get(one.name)) for one in fields(HostState)], slots=True
)


def _measure(draft: Any, amounts: Mapping[str, Amount]) -> None:
    """Set the amounts. The sizes use the field names of `STANDARD`, as `with_tree` does."""
    cpu, memory, disk = [amounts.get(name, NONE_OF_IT) for name in STANDARD]
    draft.vcpus, draft.vcpus_used = cpu.total, cpu.used
    draft.reserved_vcpus, draft.cpu_ratio = cpu.reserved, cpu.allocation_ratio
    draft.memory_mb, draft.memory_mb_used = memory.total, memory.used
    draft.reserved_memory_mb, draft.ram_ratio = memory.reserved, memory.allocation_ratio
    draft.disk_gb, draft.disk_gb_used = disk.total, disk.used
    draft.reserved_disk_gb, draft.disk_ratio = disk.reserved, disk.allocation_ratio
    draft.units, draft.amounts = _beside_sizes(amounts)


def _beside_sizes(amounts: Mapping[str, Amount]) -> tuple[Units, Mapping[str, Amount]]:
    """Return the unit rules that restrict an amount, and the other resource classes. Hosts without rules share one
    value.
    """
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
    """Return the host's aggregates. Hosts in the same aggregates share one object, where possible."""
    return ours if placements <= ours else ours | placements
