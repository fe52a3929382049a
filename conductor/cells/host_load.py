"""Load of a host: the instances, moves and runs because of which it is not empty."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from conductor.cell_db.models import ComputeNode, Instance, Migration
from conductor.core.identifiers import host_resource
from conductor.core.states import MigrationStatus, MigrationType
from conductor.journal.models import ResourceLock
from conductor.placement.models import Allocation

WITH_GUEST_OFF = (MigrationType.RESIZE, MigrationType.MIGRATION)


@dataclass(frozen=True)
class HostLoad:
    """Instances on a host, moves that can revert to it, runs that use it, and whether it has allocations."""

    instances: tuple[Instance, ...]
    ways_back: tuple[Migration, ...]
    users: tuple[UUID, ...]
    has_allocations: bool

    @property
    def is_empty(self) -> bool:
        return not (self.instances or self.ways_back or self.users or self.has_allocations)

    def __str__(self) -> str:
        parts = [f"{len(self.instances)} servers"]
        if self.ways_back:
            parts.append(f"{len(self.ways_back)} moves to be confirmed")
        if self.users:
            parts.append(f"{len(self.users)} workflows that use it")
        return ", ".join(parts)


def of(alias: str, host: str) -> HostLoad:
    """Return the load of a host now."""
    instances = Instance.objects.using(alias).alive().filter(host=host).order_by("created_at", "uuid")
    ways_back = Migration.objects.using(alias).filter(
        source_host=host, status=MigrationStatus.FINISHED, migration_type__in=WITH_GUEST_OFF
    )
    users = ResourceLock.objects.using(alias).filter(resource__startswith=f"{host_resource(host)}#")
    nodes = list(ComputeNode.objects.using(alias).filter(host=host).values_list("uuid", flat=True))
    return HostLoad(
        instances=tuple(instances),
        ways_back=tuple(ways_back.exclude(destination_host=host)),
        users=tuple(users.values_list("run__uuid", flat=True)),
        has_allocations=Allocation.objects.filter(provider__uuid__in=nodes).exists(),
    )
