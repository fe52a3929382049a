"""What a cell says: its instances, moves and devices, its hosts and the guests that they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, ExpressionWrapper, Q

from conductor.cell_db.models import BlockDevice, ComputeNode, Instance, Migration, Service
from conductor.core.states import MigrationStatus, MigrationType
from conductor.journal.models import OutboxMessage
from conductor.services.reconciliation import journal_facts
from conductor.services.reconciliation.api_facts import CHUNK, whole_uuids
from conductor.services.reconciliation.journal_facts import JournalFacts
from conductor.transactions import database_now

BINARY = "nova-compute"
# What a move in these states held was given back when it came there.
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
        """It is under way, nobody knows how it ended, or its source has not shown that it is rid of the guest."""
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
    guests: frozenset[str] | None  # None: no report has said
    kept: frozenset[str] = frozenset()  # instances whose disks it keeps for going back


@dataclass(frozen=True)
class CellFacts:
    alias: str
    instances: Mapping[str, InstanceFact]
    moves: Mapping[str, MoveFact]
    devices: Mapping[str, DeviceFact]
    hosts: Mapping[str, HostFact]
    nodes: Mapping[tuple[str, str], str]  # provider uuid by host and node
    owed: frozenset[tuple[str, str]]  # host and guest of each destroy that a host is told until it answers
    journal: JournalFacts


def load(alias: str) -> CellFacts:
    """Six queries, and those of the journal."""
    return CellFacts(
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
        owed=frozenset(
            OutboxMessage.objects.using(alias).filter(is_owed=True).values_list("host", "body__body__instance_uuid")
        ),
        journal=journal_facts.load(alias),
    )


def deleted(alias: str, uuids: Sequence[str]) -> set[str]:
    """Those instances that the cell knows to be deleted."""
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
