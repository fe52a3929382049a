"""Keeps the table of all hosts of all cells: filled once, then brought up to date by what changed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from conductor.api_db.models import Aggregate, AggregateHost, CellMapping
from conductor.cells.lookup import CELL0, cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.host_state import HostState, HostTable
from conductor.core.placement.amounts import MOST, Amount
from conductor.placement import hardware, providers
from conductor.placement.hardware import NOTHING, Inside
from conductor.placement.providers import Position, ProviderState
from conductor.scheduler import cell_facts
from conductor.scheduler.cell_facts import CellFacts, NodeFacts

DEFAULT_ZONE = "nova"
ZONE_KEY = "availability_zone"
IO_OPS_EVERY_SECONDS = 1.0
NONE_OF_IT = Amount(0)
FREE_UNITS = (1, MOST, 1)
STANDARD = ("VCPU", "MEMORY_MB", "DISK_GB")

Metadata = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Snapshot:
    """The hosts as they are now, and the cells that did not answer with the reason; their hosts are not in it.

    `epoch` tells the placement database from any other.
    """

    table: HostTable
    missing_cells: Mapping[str, str] = field(default_factory=dict)
    epoch: str = ""


@dataclass(frozen=True)
class _Aggregates:
    """Per host, the metadata of its aggregates: key → values."""

    version: tuple[object, ...] = ()
    by_host: Mapping[str, Metadata] = field(default_factory=dict)

    def of(self, host: str) -> Metadata:
        return self.by_host.get(host, {})


class HostManager:
    """One per process; safe for threads. Each snapshot is immutable and shares what did not change with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def snapshot(self) -> Snapshot:
        """Bring the table up to date and give it."""
        with self._lock:
            began = time.monotonic()
            self._follow_placement()
            self._follow_aggregates()
            missing = self._follow_cells()
            table = self._table_now(age_seconds=time.monotonic() - began)
            return Snapshot(table, missing, str(self._position.epoch))

    def _forget(self) -> None:
        self._position = Position()
        self._providers: dict[str, ProviderState] = {}
        self._insides: dict[str, Inside] = {}
        self._aggregates = _Aggregates()
        self._cells: dict[str, CellFacts] = {}
        self._answering: frozenset[str] = frozenset()
        self._io_ops_at: dict[str, float] = {}
        self._table = HostTable.from_states(())
        self._rows: dict[str, int] = {}
        self._stale: set[str] = set()  # uuids of nodes whose row may be out of date
        self._is_rebuild_due = True

    def _follow_placement(self) -> None:
        now = providers.position()
        if now == self._position and now.epoch:
            return
        if now.epoch != self._position.epoch or now.number < self._position.number:
            self._forget()
        if now.removed_number > self._position.number:
            self._providers = {}
        since = self._position.number if self._providers else 0
        changed = providers.changed_since(since)
        for state in changed:
            self._providers[state.uuid] = state
            self._stale.add(state.uuid)
        self._insides |= hardware.inside_of(state.uuid for state in changed)
        self._is_rebuild_due |= not self._rows.keys() <= self._providers.keys()
        self._position = now

    def _follow_aggregates(self) -> None:
        rows = list(Aggregate.objects.order_by("pk").values_list("pk", "metadata"))
        newest = AggregateHost.objects.order_by("-pk").values_list("pk", flat=True).first()
        version = (str(rows), newest, AggregateHost.objects.count())
        if version == self._aggregates.version:
            return
        before = self._aggregates
        self._aggregates = _Aggregates(version, _metadata_by_host(dict(rows)))
        hosts = before.by_host.keys() | self._aggregates.by_host.keys()
        self._mark({host for host in hosts if before.of(host) != self._aggregates.of(host)})

    def _follow_cells(self) -> dict[str, str]:
        """Ask each enabled cell what changed. One that does not answer keeps its facts but leaves the table."""
        closed = set(CellMapping.objects.filter(is_disabled=True).values_list("name", flat=True))
        asked = [alias for alias in cell_aliases(with_cell0=False) if alias not in closed and alias != CELL0]
        gathered = scatter_gather(self._read, asked)
        for alias, facts in gathered.answers.items():
            self._take(self._cells.get(alias, CellFacts()), facts)
            self._cells[alias] = facts
        answering = frozenset(gathered.answers)
        self._is_rebuild_due |= answering != self._answering
        self._answering = answering
        return dict(gathered.failures)

    def _read(self, alias: str) -> CellFacts:
        now = time.monotonic()
        is_due = now - self._io_ops_at.get(alias, float("-inf")) >= IO_OPS_EVERY_SECONDS
        facts = cell_facts.read(alias, self._cells.get(alias, CellFacts()), counts_io_ops=is_due)
        if is_due:
            self._io_ops_at[alias] = now
        return facts

    def _take(self, before: CellFacts, after: CellFacts) -> None:
        """Mark the rows that the news of one cell are about."""
        if after.nodes is not before.nodes:
            self._stale |= {uuid for uuid, node in after.nodes.items() if before.nodes.get(uuid) is not node}
            self._is_rebuild_due |= before.nodes.keys() != after.nodes.keys()
        unwell = before.unwell.keys() | after.unwell.keys()
        changed = {host for host in unwell if before.unwell.get(host) != after.unwell.get(host)}
        changed |= before.service_hosts ^ after.service_hosts
        busy = before.io_ops.keys() | after.io_ops.keys()
        changed |= {host for host in busy if before.io_ops.get(host) != after.io_ops.get(host)}
        self._mark(changed)

    def _mark(self, hosts: Iterable[str]) -> None:
        for row in self._table.rows_of(set(hosts)):
            self._stale.add(self._table.states[row].provider_uuid)

    def _table_now(self, *, age_seconds: float) -> HostTable:
        # Placement may know of nodes in cells that are closed or silent: they are no reason to begin anew.
        is_longer = any(self._state_of(uuid) for uuid in self._stale - self._rows.keys())
        if self._is_rebuild_due or is_longer:
            states = sorted(self._all_states(), key=lambda state: (state.cell, state.host, state.node))
            self._table = HostTable.from_states(states, age_seconds=age_seconds)
            self._rows = {state.provider_uuid: row for row, state in enumerate(states)}
            self._is_rebuild_due = False
        else:
            fresh = {self._rows[uuid]: self._state_of(uuid) for uuid in self._stale & self._rows.keys()}
            states_now = self._table.states
            changes = {row: state for row, state in fresh.items() if state and state != states_now[row]}
            self._table = self._table.with_rows(changes, age_seconds=age_seconds)
        self._stale = set()
        return self._table

    def _all_states(self) -> Iterable[HostState]:
        for alias in self._answering:
            for uuid, node in self._cells[alias].nodes.items():
                if uuid in self._providers:  # a node of which placement knows nothing has nothing to give
                    yield self._state(alias, node)

    def _state_of(self, uuid: str) -> HostState | None:
        for alias in self._answering:
            node = self._cells[alias].nodes.get(uuid)
            if node is not None and uuid in self._providers:
                return self._state(alias, node)
        return None

    def _state(self, alias: str, node: NodeFacts) -> HostState:
        cell = self._cells[alias]
        state = state_of(
            node,
            self._providers[node.uuid],
            cell=alias,
            service=cell.service_of(node.host),
            num_io_ops=cell.io_ops.get(node.host, 0),
            metadata=self._aggregates.of(node.host),
        )
        topology, pci_pools = self._insides.get(node.uuid, NOTHING)
        return replace(state, topology=topology, pci_pools=pci_pools) if topology or pci_pools else state


def state_of(
    node: NodeFacts,
    provider: ProviderState,
    *,
    cell: str,
    service: cell_facts.ServiceFacts,
    num_io_ops: int,
    metadata: Metadata,
) -> HostState:
    """One host's row out of what its cell, placement and the aggregates say."""
    vcpus, memory, disk = (provider.amounts.get(name, NONE_OF_IT) for name in STANDARD)
    return HostState(
        host=node.host,
        node=node.node,
        cell=cell,
        provider_uuid=node.uuid,
        availability_zone=min(metadata.get(ZONE_KEY, ()), default=DEFAULT_ZONE),
        vcpus=vcpus.total,
        vcpus_used=vcpus.used,
        memory_mb=memory.total,
        memory_mb_used=memory.used,
        disk_gb=disk.total,
        disk_gb_used=disk.used,
        cpu_ratio=vcpus.allocation_ratio,
        ram_ratio=memory.allocation_ratio,
        disk_ratio=disk.allocation_ratio,
        reserved_vcpus=vcpus.reserved,
        reserved_memory_mb=memory.reserved,
        reserved_disk_gb=disk.reserved,
        disk_available_least_gb=node.disk_available_least_gb,
        is_up=service.is_up,
        is_disabled=service.is_disabled,
        disabled_reason=service.disabled_reason,
        is_simulated=node.is_simulated,
        num_instances=provider.num_consumers,
        num_io_ops=num_io_ops,
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        supported_instances=node.supported_instances,
        traits=provider.traits,
        aggregate_metadata=metadata,
        capabilities=node.capabilities,
        units=_units(provider),
        amounts={name: amount for name, amount in provider.amounts.items() if name not in STANDARD},
    )


def _units(provider: ProviderState) -> tuple[tuple[str, int, int, int], ...]:
    """Only what binds: hosts without any rule of their own then share one value."""
    rules = ((name, amount.min_unit, amount.max_unit, amount.step_size) for name, amount in provider.amounts.items())
    return tuple(sorted(rule for rule in rules if rule[1:] != FREE_UNITS))


def _metadata_by_host(metadata: Mapping[int, Mapping[str, object]]) -> dict[str, Metadata]:
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for aggregate, host in AggregateHost.objects.values_list("aggregate_id", "host"):
        for key, value in metadata.get(aggregate, {}).items():
            found[host][key].add(str(value))
    return {host: {key: frozenset(values) for key, values in keys.items()} for host, keys in found.items()}


host_manager = HostManager()
