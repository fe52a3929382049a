"""Facts of all databases at about the same moment, read with a constant number of queries in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from conductor.cells.lookup import API_ALIAS, cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.network.ovn.health import OvnHealth
from conductor.services.networks import ovn_state
from conductor.services.operations.reconciliation import api_facts, cell_facts
from conductor.services.operations.reconciliation.api_facts import ApiFacts
from conductor.services.operations.reconciliation.cell_facts import CellRecords, InstanceFact, MoveFact
from conductor.services.operations.reconciliation.journal_facts import JournalFacts

TIMEOUT_SECONDS = 60.0
OVN_SECONDS = 3.0


def instance_resource(instance_uuid: str) -> str:
    """Return the name of an instance's lock."""
    return f"instance:{instance_uuid}"


@dataclass(frozen=True)
class ReconciliationFacts:
    """Everything from which discrepancies are computed.

    `down` names the cells that are down. Their objects are not judged.
    """

    api: ApiFacts
    cells: Mapping[str, CellRecords]
    down: Mapping[str, str] = field(default_factory=dict)
    dead: frozenset[str] = frozenset()  # uuids that are deleted according to one database
    is_complete: bool = True  # every cell was queried and has responded
    ovn: OvnHealth | None = None  # None without OVN, or where a database of OVN does not answer

    @cached_property
    def alive(self) -> Mapping[str, InstanceFact]:
        """Existing instances by uuid. Of one that is in several cells, the row in its mapped cell."""
        rows = {uuid: row for cell in self.cells.values() for uuid, row in cell.instances.items()}
        for uuid, mapping in self.api.mappings.items():
            if mapping.cell in self.cells and uuid in self.cells[mapping.cell].instances:
                rows[uuid] = self.cells[mapping.cell].instances[uuid]
        return rows

    @cached_property
    def moves(self) -> Mapping[str, MoveFact]:
        """Moves that may hold capacity, by uuid."""
        return {uuid: row for cell in self.cells.values() for uuid, row in cell.moves.items()}

    @cached_property
    def moving(self) -> frozenset[str]:
        """Instances with an unfinished move."""
        return frozenset(move.instance_uuid for move in self.moves.values() if move.is_open)

    @cached_property
    def guests(self) -> Mapping[str, list[tuple[str, str]]]:
        """(cell, host) of each host that is up and has a guest, by the guest's uuid."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for alias, cell in self.cells.items():
            for host, service in cell.hosts.items():
                for uuid in service.guests or () if service.is_up else ():
                    found[uuid].append((alias, host))
        return found

    @cached_property
    def journals(self) -> Mapping[str, JournalFacts]:
        return {API_ALIAS: self.api.journal, **{alias: cell.journal for alias, cell in self.cells.items()}}

    @cached_property
    def busy(self) -> frozenset[str]:
        """Every resource that an unfinished workflow works on, holds or waits for."""
        return frozenset(resource for journal in self.journals.values() for resource in journal.busy)

    def is_busy(self, instance_uuid: str) -> bool:
        return instance_resource(instance_uuid) in self.busy

    def is_dead(self, uuid: str) -> bool:
        """Whether a database has the instance as deleted. An unknown instance is not enough."""
        return uuid in self.dead and uuid not in self.alive

    def is_unheard_of(self, uuid: str) -> bool:
        """Whether no database knows the uuid; false while one of them is down."""
        known = uuid in self.alive or uuid in self.dead or uuid in self.moves
        known = known or uuid in self.api.mappings or uuid in self.api.requests
        return self.is_complete and not known

    def provider_of(self, instance: InstanceFact) -> str:
        """Return the resource provider that must have the instance's allocation. Empty when its node is not known."""
        return self.cells[instance.cell].nodes.get((instance.host, instance.node), "")


def load(cells: Iterable[str] = ()) -> ReconciliationFacts:
    """Read the API database and the cells named, or all; cell0 is always among them."""
    every = cell_aliases()
    wanted = [alias for alias in every if not (named := set(cells)) or alias in named or alias == every[0]]
    api = api_facts.load()
    gathered = scatter_gather(cell_facts.load, wanted, timeout_seconds=TIMEOUT_SECONDS)
    suspects = _suspects(api, gathered.answers)
    dead = api_facts.deleted(suspects)
    if suspects:
        known = scatter_gather(
            lambda alias: cell_facts.deleted(alias, suspects), gathered.answers, timeout_seconds=TIMEOUT_SECONDS
        )
        dead = dead.union(*known.answers.values())
        gathered.failures.update(known.failures)
    answered = {alias: cell for alias, cell in gathered.answers.items() if alias not in gathered.failures}
    return ReconciliationFacts(
        api=api,
        cells=answered,
        down=gathered.failures,
        dead=frozenset(dead),
        is_complete=set(answered) == set(every),
        ovn=ovn_state.read(seconds=OVN_SECONDS).health if ovn_state.is_configured() else None,
    )


def _suspects(api: ApiFacts, cells: Mapping[str, CellRecords]) -> list[str]:
    """Return uuids with allocations, with a guest or with a pending rollback, but without a live instance in any
    cell.
    """
    alive = {uuid for cell in cells.values() for uuid in cell.instances}
    moves = {uuid for cell in cells.values() for uuid in cell.moves}
    hosts = [host for cell in cells.values() for host in cell.hosts.values()]
    guests = {uuid for host in hosts for uuid in (*(host.guests or ()), *host.kept)}
    named = {device.instance_uuid for cell in cells.values() for device in cell.devices.values()}
    moved = {move.instance_uuid for cell in cells.values() for move in cell.moves.values()}
    left = {run.instance_uuid for cell in cells.values() for run in cell.journal.held_up}
    held = {*api.held, *(port.instance_uuid for port in api.ports), *(one.instance_uuid for one in api.attachments)}
    return sorted((held | moved | left | guests | named | set(api.mappings)) - alive - moves)
