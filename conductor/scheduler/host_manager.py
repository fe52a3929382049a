"""Keeps the table of all hosts of all cells: read in full once, then updated incrementally."""

from __future__ import annotations

import gc
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from conductor.api_db.models import Aggregate, AggregateHost, CellMapping
from conductor.cells.lookup import CELL0, cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.frozen import FrozenDict, frozen
from conductor.core.host_state import HostState, HostTable
from conductor.core.scheduling import host_trees
from conductor.placement import hardware, providers
from conductor.placement.hardware import NOTHING, Inside
from conductor.placement.providers import Position, ProviderState
from conductor.scheduler import host_facts
from conductor.scheduler.host_facts import CellFacts, HostAggregates, Sources, row_of
from conductor.scheduler.node_facts import NodeFacts
from conductor.scheduler.provider_trees import ProviderTrees

IO_OPS_EVERY_SECONDS = 1.0
IMAGES_EVERY_SECONDS = 10.0  # it reads a row for every instance
NEVER = float("-inf")
NO_IMAGES: Mapping[tuple[str, str], int] = FrozenDict()  # the form that each host's state has
BY_HOST = ("unwell", "io_ops", "failed_builds", "image_properties")
NO_MEMBER = HostAggregates()


@dataclass(frozen=True)
class FleetSnapshot:
    """The hosts as they are now, and the reason of each cell that did not answer, whose hosts are missing.

    `epoch` identifies the placement database.
    """

    table: HostTable
    missing_cells: Mapping[str, str] = field(default_factory=dict)
    epoch: str = ""


@dataclass(frozen=True)
class _Aggregates:
    """Aggregates of each host, with their metadata."""

    version: tuple[object, ...] = ()
    by_host: Mapping[str, HostAggregates] = field(default_factory=dict)

    def of(self, host: str) -> HostAggregates:
        return self.by_host.get(host, NO_MEMBER)


class HostManager:
    """Keeps the host table; one per process, thread-safe. Each snapshot is immutable and shares unchanged parts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def snapshot(self, *, counts_images: bool = False) -> FleetSnapshot:
        """Update the table and return it. With `counts_images` it also counts the images of the instances."""
        with self._lock:
            self._counts_images = counts_images
            with nullcontext() if self._rows else _nothing_collected():
                return self._now()

    def _now(self) -> FleetSnapshot:
        began = time.monotonic()
        self._follow_placement()
        self._follow_aggregates()
        missing = self._follow_cells()
        table = self._table_now(age_seconds=time.monotonic() - began)
        return FleetSnapshot(table, missing, str(self._position.epoch))

    def _forget(self) -> None:
        self._position = Position()
        self._providers: dict[str, ProviderState] = {}
        self._insides: dict[str, Inside] = {}
        self._trees = ProviderTrees()
        self._tree_consumers: dict[str, int] = {}  # by the root of trees of several
        self._aggregates = _Aggregates()
        self._cells: dict[str, CellFacts] = {}
        self._closed: dict[str, str] = {}  # cells that take no new servers, and why
        self._answering: frozenset[str] = frozenset()
        self._io_ops_at: dict[str, float] = {}
        self._images_at: dict[str, float] = {}
        self._counts_images = False
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
            self._providers, self._trees = {}, ProviderTrees()
        since = self._position.number if self._providers else 0
        changed = providers.changed_since(since)
        for state in changed:
            self._providers[state.uuid] = state
        self._follow_trees(changed)
        self._insides |= hardware.inside_of(state.uuid for state in changed)
        self._is_rebuild_due |= not self._rows.keys() <= self._providers.keys()
        self._position = now

    def _follow_trees(self, changed: Iterable[ProviderState]) -> None:
        """Mark the rows of hosts with a changed provider, own or shared."""
        touched, reached = self._trees.follow(changed)
        self._tree_consumers |= providers.consumers_of_trees(self._trees.roots(touched))
        self._stale |= touched
        if reached:
            self._stale |= {state.provider_uuid for state in self._table.states if host_trees.is_in(state, reached)}

    def _follow_aggregates(self) -> None:
        rows = list(Aggregate.objects.order_by("pk").values_list("pk", "uuid", "metadata"))
        newest = AggregateHost.objects.order_by("-pk").values_list("pk", flat=True).first()
        version = (str(rows), newest, AggregateHost.objects.count())
        if version == self._aggregates.version:
            return
        before = self._aggregates
        self._aggregates = _Aggregates(version, _members({pk: (str(uuid), metadata) for pk, uuid, metadata in rows}))
        hosts = before.by_host.keys() | self._aggregates.by_host.keys()
        self._mark({host for host in hosts if before.of(host) != self._aggregates.of(host)})

    def _follow_cells(self) -> dict[str, str]:
        """Read the changes of each cell. A cell that does not answer keeps its facts, but its hosts leave the table."""
        closed = dict(CellMapping.objects.filter(is_disabled=True).values_list("name", "disabled_reason"))
        self._is_rebuild_due |= closed != self._closed
        self._closed = closed
        requested = [alias for alias in cell_aliases(with_cell0=False) if alias != CELL0]
        gathered = scatter_gather(self._read, requested)
        for alias, facts in gathered.answers.items():
            self._keep(alias, facts)
        answering = frozenset(gathered.answers)
        self._is_rebuild_due |= answering != self._answering
        self._answering = answering
        return dict(gathered.failures)

    def _read(self, alias: str) -> CellFacts:
        now = time.monotonic()
        is_due = now - self._io_ops_at.get(alias, NEVER) >= IO_OPS_EVERY_SECONDS
        counts_images = self._counts_images and now - self._images_at.get(alias, NEVER) >= IMAGES_EVERY_SECONDS
        known = self._cells.get(alias, CellFacts())
        facts = host_facts.read(alias, known, counts_io_ops=is_due, counts_images=counts_images)
        if is_due:
            self._io_ops_at[alias] = now
        if counts_images:
            self._images_at[alias] = now
        return facts

    def _keep(self, alias: str, facts: CellFacts) -> None:
        self._take(self._cells.get(alias, CellFacts()), facts)
        self._cells[alias] = facts

    def _take(self, before: CellFacts, after: CellFacts) -> None:
        """Mark the rows that are affected by changed facts of one cell."""
        if after.nodes is not before.nodes:
            self._stale |= {uuid for uuid, node in after.nodes.items() if before.nodes.get(uuid) is not node}
            self._is_rebuild_due |= before.nodes.keys() != after.nodes.keys()
        changed = set(before.service_hosts ^ after.service_hosts)
        for name in BY_HOST:
            old, new = getattr(before, name), getattr(after, name)
            if new is not old:
                changed |= {host for host in old.keys() | new.keys() if old.get(host) != new.get(host)}
        self._mark(changed)

    def _mark(self, hosts: Iterable[str]) -> None:
        for row in self._table.rows_of(set(hosts)):
            self._stale.add(self._table.states[row].provider_uuid)

    def _table_now(self, *, age_seconds: float) -> HostTable:
        # Placement may know nodes in unresponsive cells: they do not cause a rebuild.
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
            cell = self._cells[alias]
            for uuid, node in cell.nodes.items():
                if uuid in self._providers:  # a node that placement does not know has no resources
                    yield self._state(alias, cell, node)

    def _state_of(self, uuid: str) -> HostState | None:
        for alias in self._answering:
            cell = self._cells[alias]
            node = cell.nodes.get(uuid)
            if node is not None and uuid in self._providers:
                return self._state(alias, cell, node)
        return None

    def _state(self, alias: str, cell: CellFacts, node: NodeFacts) -> HostState:
        host, uuid = node.host, node.uuid
        provider, membership = self._providers[uuid], self._aggregates.of(host)
        return row_of(
            Sources(
                node,
                provider,
                alias,
                cell.service_of(host),
                self._closed.get(alias),
                num_io_ops=cell.io_ops.get(host, 0),
                failed_builds=cell.failed_builds.get(host, 0),
                image_properties=cell.image_properties.get(host, NO_IMAGES),
                membership=membership,
                inside=self._insides.get(uuid, NOTHING),
                tree=self._trees.tree_of(uuid, membership.aggregates),
                num_tree_consumers=self._tree_consumers.get(provider.root_uuid),
            )
        )


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Turn garbage collection off while a fleet is read: all new objects stay, so a collection would find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _members(metadata: Mapping[int, tuple[str, Mapping[str, object]]]) -> dict[str, HostAggregates]:
    values: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    uuids: defaultdict[str, set[str]] = defaultdict(set)
    members: dict[str, HostAggregates] = {}
    for aggregate, host in AggregateHost.objects.values_list("aggregate_id", "host"):
        uuid, keys = metadata.get(aggregate, ("", {}))
        if not uuid:  # created between both readings; the next reading has it
            continue
        uuids[host].add(uuid)
        for key, value in keys.items():
            values[host][key].add(str(value))
    alike: dict[frozenset[str], HostAggregates] = {}  # hosts in the same aggregates share the object
    for host, found in uuids.items():
        same = frozenset(found)
        if same not in alike:
            alike[same] = HostAggregates(same, frozen({key: frozenset(texts) for key, texts in values[host].items()}))
        members[host] = alike[same]
    return members


host_manager = HostManager()
