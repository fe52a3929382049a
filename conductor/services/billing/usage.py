"""Usage of servers: how long they ran and which resources they had, counted from their rows on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS, cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.states import VmState
from conductor.db.transactions import database_time
from conductor.identity.models import User

SECONDS_PER_HOUR = 3600
TERMINATED = "terminated"
COLUMNS = ("uuid", "name", "project_id", "user_id", "tags", "vm_state", "flavor", "launched_at", "terminated_at")


@dataclass(frozen=True)
class UsageQuery:
    """Filters for servers that ran at some time from `begin` to `end`, in the order of their launches.

    `limit` None means all. `marker` is the uuid of the last server seen. `project_ids` restricts the list to these
    projects.
    """

    begin: datetime
    end: datetime
    project_id: str = ""
    limit: int | None = None
    marker: str = ""
    project_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """Usage of one server: `hours` within the period, `uptime_seconds` of its whole life."""

    uuid: str
    name: str
    project_id: str
    flavor_name: str
    state: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    hours: float
    uptime_seconds: int
    began_at: datetime
    ended_at: datetime | None
    user_id: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProjectUsage:
    """Usage of a project: its servers and their sums."""

    project_id: str
    servers: tuple[ServerUsage, ...]

    def total(self, name: str) -> float:
        """Return the sum over servers of hours × an amount: `vcpus`, `memory_mb`, `disk_gb`."""
        return float(sum(server.hours * getattr(server, name) for server in self.servers))

    @property
    def hours(self) -> float:
        return sum(server.hours for server in self.servers)


def now() -> datetime:
    """Return the database's time, at which periods end at the latest."""
    return database_time(API_ALIAS)


def servers(context: RequestContext, query: UsageQuery) -> Page[ServerUsage]:
    """Return the usage of servers in all cells that respond. Raises Invalid for an unknown marker."""
    wanted = Q(launched_at__lt=query.end) & (Q(terminated_at=None) | Q(terminated_at__gte=query.begin))
    if query.project_id:
        wanted &= Q(project_id=query.project_id)
    if query.project_ids:
        wanted &= Q(project_id__in=query.project_ids)
    if query.marker:
        wanted &= _after(query.marker)
    stop = None if query.limit is None else query.limit + 1

    def ask(alias: str) -> list[dict[str, Any]]:
        rows = Instance.objects.using(alias).filter(wanted).order_by("launched_at", "uuid")
        return list(rows.values(*COLUMNS)[:stop])

    found = scatter_gather(ask, cell_aliases(with_cell0=False))
    rows = sorted(
        (row for answer in found.answers.values() for row in answer), key=lambda row: (row["launched_at"], row["uuid"])
    )
    has_more = query.limit is not None and len(rows) > query.limit
    current = now()
    shown = [_usage(row, query, current) for row in rows[: query.limit]]
    return Page(shown, has_more=has_more, missing_cells=found.failures)


def user_names(user_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of existing users by id."""
    return dict(User.objects.filter(pk__in=list(user_ids)).values_list("pk", "username"))


def by_project(found: Iterable[ServerUsage]) -> list[ProjectUsage]:
    """Group usage by project, in the order in which projects appear."""
    projects: dict[str, list[ServerUsage]] = {}
    for server in found:
        projects.setdefault(server.project_id, []).append(server)
    return [ProjectUsage(project_id, tuple(members)) for project_id, members in projects.items()]


def _usage(row: dict[str, Any], query: UsageQuery, current: datetime) -> ServerUsage:
    flavor, began, ended = row["flavor"], row["launched_at"], row["terminated_at"]
    within = min(ended or query.end, query.end) - max(began, query.begin)
    return ServerUsage(
        uuid=str(row["uuid"]),
        name=row["name"],
        project_id=row["project_id"],
        flavor_name=flavor.get("name", ""),
        state=TERMINATED if ended or row["vm_state"] == VmState.DELETED else row["vm_state"],
        vcpus=flavor.get("vcpus", 0),
        memory_mb=flavor.get("memory_mb", 0),
        disk_gb=flavor.get("root_gb", 0) + flavor.get("ephemeral_gb", 0),
        hours=max(0.0, within.total_seconds() / SECONDS_PER_HOUR),
        uptime_seconds=max(0, int(((ended or current) - began).total_seconds())),
        began_at=began,
        ended_at=ended,
        user_id=row["user_id"],
        tags=tuple(row["tags"]),
    )


def _after(marker: str) -> Q:
    uuid = uuid_or_none(marker) or UUID(int=0)

    def ask(alias: str) -> list[datetime | None]:
        return list(Instance.objects.using(alias).filter(uuid=uuid).values_list("launched_at", flat=True))

    found = scatter_gather(ask, cell_aliases(with_cell0=False))
    launched_at = next((time for times in found.answers.values() for time in times if time), None)
    if launched_at is None:
        raise Invalid(f"marker [{marker[:60]}] not found", field="marker")
    return Q(launched_at__gt=launched_at) | Q(launched_at=launched_at, uuid__gt=uuid)
