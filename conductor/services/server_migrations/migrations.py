"""Migrations in all cells, for operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from conductor.api_db.models import CellMapping, Flavor
from conductor.cell_db.models import Migration
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.states import MigrationStatus, MigrationType
from conductor.services.hosts.hosts import CELL_STRIDE
from conductor.services.servers import actions

# Listed by the Compute API below a server: live migrations under way.
IN_PROGRESS = frozenset(
    {MigrationStatus.QUEUED, MigrationStatus.PREPARING, MigrationStatus.RUNNING, MigrationStatus.POST_MIGRATING}
)
AMOUNTS = (
    "memory_total",
    "memory_processed",
    "memory_remaining",
    "disk_total",
    "disk_processed",
    "disk_remaining",
)


@dataclass(frozen=True)
class MigrationView:
    """One migration.

    `number` is unique over all cells; flavors are given by the numbers of their rows, if they exist.
    """

    number: int
    uuid: str
    cell: str
    instance_uuid: str
    run_uuid: str
    migration_type: str
    status: str
    source_host: str
    source_node: str
    destination_host: str | None
    destination_node: str | None
    destination_ip: str
    old_flavor_number: int | None
    new_flavor_number: int | None
    project_id: str
    user_id: str
    created_at: datetime
    updated_at: datetime
    amounts: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def is_live_and_under_way(self) -> bool:
        return self.migration_type == MigrationType.LIVE_MIGRATION and self.status in IN_PROGRESS


@dataclass(frozen=True)
class MigrationQuery:
    """Filters for migrations, newest first. `host` is either end; `marker` is the uuid of the last one seen.

    No migration is hidden, so `is_hidden` finds none.
    """

    host: str | None = None
    source_host: str | None = None
    status: str | None = None
    migration_type: str | None = None
    instance_uuid: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    is_hidden: bool = False
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    limit: int = 1000
    marker: str = ""


def list_page(context: RequestContext, query: MigrationQuery) -> Page[MigrationView]:
    """Return all projects' migrations for an administrator, else the caller's. Raises Invalid for an unknown marker."""
    wanted = _wanted(query)
    if not context.is_admin:
        wanted &= Q(project_id=context.project_id)
    if query.marker:
        wanted &= _after(query.marker, wanted)

    def ask(alias: str) -> list[Migration]:
        rows = Migration.objects.using(alias).filter(wanted).order_by("-created_at", "uuid")
        return list(rows[: query.limit + 1])

    found = scatter_gather(ask, cell_aliases(with_cell0=False))
    rows = [(row, alias) for alias, answer in found.answers.items() for row in answer]
    rows.sort(key=lambda pair: (-pair[0].created_at.timestamp(), str(pair[0].uuid)))
    shown = _views(rows[: query.limit])
    return Page(shown, has_more=len(rows) > query.limit, missing_cells=found.failures)


def of_server(context: RequestContext, instance_uuid: str) -> list[MigrationView]:
    """Return an instance's live migrations that are under way. Raises NotFound."""
    alias = actions.cell_of(context, instance_uuid)
    rows = Migration.objects.using(alias).filter(
        instance_uuid=instance_uuid, migration_type=MigrationType.LIVE_MIGRATION, status__in=IN_PROGRESS
    )
    return _views([(row, alias) for row in rows.order_by("pk")])


def get_of_server(context: RequestContext, instance_uuid: str, ref: str) -> MigrationView:
    """Return an instance's live migration that is under way. Raises NotFound for any other."""
    alias = actions.cell_of(context, instance_uuid)
    row = of_instance(alias, instance_uuid, ref)
    if row is None:
        raise NotFound(f"Migration {ref[:60]} for server {instance_uuid} could not be found.")
    (view,) = _views([(row, alias)])
    if not view.is_live_and_under_way:
        raise NotFound(f"Migration {ref[:60]} of server {instance_uuid} is no live migration that is in progress.")
    return view


def of_instance(alias: str, instance_uuid: str, ref: str) -> Migration | None:
    """Return an instance's migration by its number over all cells, or by its uuid."""
    rows = Migration.objects.using(alias).filter(instance_uuid=instance_uuid)
    uuid = uuid_or_none(ref)
    if uuid is not None:
        return rows.filter(uuid=uuid).first()
    if not ref.isdecimal() or len(ref) > 15:
        return None
    pk, cell_number = divmod(int(ref), CELL_STRIDE)
    if CellMapping.objects.filter(name=alias, pk=cell_number).exists():
        return rows.filter(pk=pk).first()
    return None


def _wanted(query: MigrationQuery) -> Q:
    wanted = Q(pk=None) if query.is_hidden else Q()
    for name in ("status", "migration_type", "source_host", "user_id", "project_id"):
        value = getattr(query, name)
        if value is not None:
            wanted &= Q(**{name: value})
    if query.host is not None:
        wanted &= Q(source_host=query.host) | Q(destination_host=query.host)
    if query.instance_uuid is not None:
        uuid = uuid_or_none(query.instance_uuid)
        wanted &= Q(instance_uuid=uuid or UUID(int=0))
    if query.changed_since:
        wanted &= Q(updated_at__gte=query.changed_since)
    if query.changed_before:
        wanted &= Q(updated_at__lte=query.changed_before)
    return wanted


def _after(marker: str, wanted: Q) -> Q:
    uuid = uuid_or_none(marker)
    found = scatter_gather(
        lambda alias: list(Migration.objects.using(alias).filter(wanted, uuid=uuid)) if uuid else [],
        cell_aliases(with_cell0=False),
    )
    anchor = next((row for rows in found.answers.values() for row in rows), None)
    if anchor is None:
        raise Invalid(f"Marker {marker[:60]} could not be found.", field="marker")
    return Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, uuid__gt=anchor.uuid)


def _views(rows: Sequence[tuple[Migration, str]]) -> list[MigrationView]:
    cells = dict(CellMapping.objects.values_list("name", "pk"))
    flavors = dict(Flavor.objects.values_list("flavor_id", "pk"))
    return [_view(row, alias, cells[alias], flavors) for row, alias in rows]


def _view(row: Migration, alias: str, cell_number: int, flavors: Mapping[str, int]) -> MigrationView:
    def number_of(flavor: dict[str, Any] | None) -> int | None:
        return flavors.get((flavor or {}).get("flavor_id", ""))

    return MigrationView(
        number=row.pk * CELL_STRIDE + cell_number,
        uuid=str(row.uuid),
        cell=alias,
        instance_uuid=str(row.instance_uuid),
        run_uuid=str(row.run_uuid or ""),
        migration_type=row.migration_type,
        status=row.status,
        source_host=row.source_host,
        source_node=row.source_node,
        destination_host=row.destination_host,
        destination_node=row.destination_node,
        destination_ip=row.destination_ip,
        old_flavor_number=number_of(row.old_flavor),
        new_flavor_number=number_of(row.new_flavor),
        project_id=row.project_id,
        user_id=row.user_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        amounts={name: getattr(row, name) for name in AMOUNTS},
    )
