"""Facts of a cell: its instances, moves and devices, its hosts and the guests that they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, ExpressionWrapper, Q

from conductor.cell_db.models import BlockDevice, ComputeNode, Instance, Migration, Service
from conductor.core.states import MigrationStatus, MigrationType
from conductor.db.transactions import database_now
from conductor.journal.models import OutboxMessage
from conductor.services.operations.reconciliation import journal_facts
from conductor.services.operations.reconciliation.api_facts import CHUNK, whole_uuids
from conductor.services.operations.reconciliation.journal_facts import JournalFacts

BINARY = "nova-compute"
# States in which a move has released its allocations.
SETTLED = (MigrationStatus.CONFIRMED, MigrationStatus.REVERTED, MigrationStatus.COMPLETED, MigrationStatus.CANCELLED)
ENDED = (*SETTLED, MigrationStatus.DONE, MigrationStatus.FAILED, MigrationStatus.ERROR)


@dataclass(frozen=True, slots=True)
class InstanceFact:
    cell: str
    uuid: str
    vm_state: str
    task_state: str | None
    host: str
    node: str
    was_launched: bool


@dataclass(frozen=True, slots=True)
class MoveFact:
    cell: str
    uuid: str
    instance_uuid: str
    run_uuid: str
    migration_type: str
    status: str

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED

    @property
    def may_hold(self) -> bool:
        """Whether the move may hold capacity: it is under way, its end is unknown, or its source may still have the
        guest.
        """
        is_evacuation = self.migration_type == MigrationType.EVACUATION
        return self.status != MigrationStatus.DONE or is_evacuation


@dataclass(frozen=True, slots=True)
class DeviceFact:
    uuid: str
    instance_uuid: str
    volume_uuid: str


@dataclass(frozen=True, slots=True)
class HostFact:
    is_up: bool
    guests: frozenset[str] | None  # None: never reported
    kept: frozenset[str] = frozenset()  # instances whose disks it keeps for a rollback


@dataclass(frozen=True)
class CellRecords:
    alias: str
    instances: Mapping[str, InstanceFact]
    moves: Mapping[str, MoveFact]
    devices: Mapping[str, DeviceFact]
    hosts: Mapping[str, HostFact]
    nodes: Mapping[tuple[str, str], str]  # provider uuid by host and node
    deferred: frozenset[tuple[str, str]]  # host and guest of each deferred destroy, until the host confirms it
    journal: JournalFacts


def load(alias: str) -> CellRecords:
    """Read the facts with six queries, and those of the journal."""
    return CellRecords(
        alias=alias,
        instances=_instances(alias),
        moves=_moves(alias),
        devices={
            str(uuid): DeviceFact(str(uuid), str(instance), str(volume))
            for uuid, instance, volume in BlockDevice.objects.using(alias).values_list(
                "uuid", "instance_uuid", "volume_uuid"
            )
        },
        hosts=_hosts(alias),
        nodes={
            (host, node): str(uuid)
            for uuid, host, node in ComputeNode.objects.using(alias).values_list("uuid", "host", "node")
        },
        deferred=frozenset(
            OutboxMessage.objects.using(alias).filter(is_deferred=True).values_list("host", "body__body__instance_uuid")
        ),
        journal=journal_facts.load(alias),
    )


def deleted(alias: str, uuids: Sequence[str]) -> set[str]:
    """Return the instances that are deleted according to the cell."""
    found: set[str] = set()
    for start in range(0, len(uuids), CHUNK):
        rows = Instance.objects.using(alias).filter(uuid__in=whole_uuids(uuids[start : start + CHUNK]))
        found |= {str(uuid) for uuid in rows.filter(deleted_at__isnull=False).values_list("uuid", flat=True)}
    return found


def _instances(alias: str) -> dict[str, InstanceFact]:
    rows = Instance.objects.using(alias).alive()
    found: dict[str, InstanceFact] = {}
    columns = ("uuid", "vm_state", "task_state", "host", "node", "launched_at")
    for uuid, vm_state, task_state, host, node, launched_at in rows.values_list(*columns):
        found[str(uuid)] = InstanceFact(
            alias, str(uuid), vm_state, task_state, host or "", node or "", launched_at is not None
        )
    return found


def _moves(alias: str) -> dict[str, MoveFact]:
    rows = Migration.objects.using(alias).exclude(status__in=SETTLED)
    columns = ("uuid", "instance_uuid", "run_uuid", "migration_type", "status")
    moves = [
        MoveFact(alias, str(uuid), str(of), str(run or ""), kind, status)
        for uuid, of, run, kind, status in rows.values_list(*columns)
    ]
    return {move.uuid: move for move in moves if move.may_hold}


def _hosts(alias: str) -> dict[str, HostFact]:
    heard = Q(last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS), is_forced_down=False)
    rows = Service.objects.using(alias).filter(binary=BINARY)
    seen: Any = rows.annotate(is_up=ExpressionWrapper(heard, output_field=BooleanField()))
    return {
        host: HostFact(is_up, None if guests is None else frozenset(guests), frozenset(kept or ()))
        for host, is_up, guests, kept in seen.values_list("host", "is_up", "guests", "kept")
    }
