"""State of a compute host in its cell: whether it responds, whether it is fenced, and what it is used for.

Parked runs check the first two before they give up on a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import connections

from conductor.cell_db import statements
from conductor.cell_db.models import ComputeNode, Instance, Migration
from conductor.core.identifiers import host_resource
from conductor.core.states import MigrationStatus, MigrationType
from conductor.journal.models import ResourceLock
from conductor.placement.models import Allocation

WITH_GUEST_OFF = (MigrationType.RESIZE, MigrationType.MIGRATION)


def is_unresponsive(alias: str, host: str) -> bool:
    """Whether the host has never reported, is forced down, or has not reported for `host_down_seconds`."""
    return not statements.has_reported_since(connections[alias], host, settings.NOVELLA_HOST_DOWN_SECONDS)


def is_fenced(alias: str, host: str) -> bool:
    """Whether an operator has fenced the host, so that it no longer carries out earlier commands."""
    return statements.is_forced_down(connections[alias], host)


@dataclass(frozen=True)
class HostLoad:
    """Reasons why a host is not empty: instances, moves that can revert to it, runs that use it, and allocations."""

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


def load_of(alias: str, host: str) -> HostLoad:
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
