"""Locks of resources: holders, times, and the workflows that wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun

HOST = "host"  # hosts are shown to operators only


@dataclass(frozen=True)
class WaiterView:
    """A workflow that waits for a lock. It has no details if it is another project's."""

    run_uuid: str
    action: str
    project_id: str
    since: datetime


@dataclass(frozen=True)
class LockView:
    """One locked resource. `kind` is the part of its name before the colon: instance, volume, port, image, host."""

    resource: str
    kind: str
    cell: str
    granted_at: datetime
    run_uuid: str
    flow: str
    action: str
    state: str
    project_id: str
    user_name: str
    instance_uuid: str
    waiters: list[WaiterView] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, str]:
        """Sort key in a list; as text, with @ between, the marker of the next page."""
        return self.resource, self.cell


@dataclass(frozen=True, kw_only=True)
class LockQuery:
    """Filters for locks; empty fields do not narrow. `cell` is "api" for those of the API database.

    A `resource` that several servers can share includes each server's share.
    """

    resource: str = ""
    kind: str = ""
    cell: str = ""
    run_uuid: str = ""
    limit: int = 100
    marker: str = ""


@dataclass(frozen=True)
class _Held:
    """Locks of one database, and the waits for each resource."""

    locks: list[ResourceLock]
    waits: dict[str, list[WorkflowRun]]


def list_locks(context: RequestContext, query: LockQuery, among: Sequence[str] = ()) -> Page[LockView]:
    """Return locks that workflows of the caller's project hold, or all for an administrator; by resource, then by cell.

    `among` restricts the list to these resources, so that all locks of a server are read at once.
    """
    aliases = [alias for alias in journal_aliases() if query.cell in ("", "api" if alias == API_ALIAS else alias)]
    found = scatter_gather(lambda alias: _held(alias, query, among), aliases)
    holders, down = _holders(found.answers.values())
    views = []
    for alias, held in found.answers.items():
        for lock in held.locks:
            holder = lock.run or holders.get(str(lock.holder_uuid))
            if _may_see(context, lock, holder):
                views.append(_view(context, alias, lock, holder, held.waits.get(lock.resource, [])))
    wanted = sorted((view for view in views if _is_wanted(view, query)), key=lambda view: view.place)
    return Page(wanted[: query.limit], len(wanted) > query.limit, {**found.failures, **down})


def _held(alias: str, query: LockQuery, among: Sequence[str]) -> _Held:
    narrowed = Q(resource=query.resource) | Q(resource__startswith=f"{query.resource}:") if query.resource else Q()
    if among:
        narrowed &= Q(resource__in=among)
    if query.kind:
        narrowed &= Q(resource__startswith=f"{query.kind}:")
    if query.marker:
        narrowed &= Q(resource__gte=query.marker.rpartition("@")[0])
    locks = list(ResourceLock.objects.using(alias).filter(narrowed).select_related("run").order_by("resource"))
    waits: dict[str, list[WorkflowRun]] = defaultdict(list)
    for wait in LockWait.objects.using(alias).filter(narrowed).select_related("run").order_by("run_id"):
        waits[wait.resource].append(wait.run)
    return _Held(locks, waits)


def _holders(held: Iterable[_Held]) -> tuple[dict[str, WorkflowRun], dict[str, str]]:
    """Return runs of other databases that hold locks here, and the cells that are down."""
    by_alias: dict[str, list[Any]] = defaultdict(list)
    known = set(journal_aliases())
    for lock in (lock for one in held for lock in one.locks):
        if lock.run is None and lock.holder_alias in known:
            by_alias[lock.holder_alias].append(lock.holder_uuid)

    def ask(alias: str) -> list[WorkflowRun]:
        return list(WorkflowRun.objects.using(alias).filter(uuid__in=by_alias[alias]))

    found = scatter_gather(ask, by_alias)
    return {str(run.uuid): run for runs in found.answers.values() for run in runs}, found.failures


def _may_see(context: RequestContext, lock: ResourceLock, holder: WorkflowRun | None) -> bool:
    if context.is_admin:
        return True
    is_own = holder is not None and holder.project_id == context.project_id
    return is_own and not lock.resource.startswith(f"{HOST}:")


def _view(
    context: RequestContext, alias: str, lock: ResourceLock, holder: WorkflowRun | None, waiting: Sequence[WorkflowRun]
) -> LockView:
    return LockView(
        resource=lock.resource,
        kind=lock.resource.partition(":")[0],
        cell="" if alias == API_ALIAS else alias,
        granted_at=lock.granted_at,
        run_uuid=str(holder.uuid if holder else lock.holder_uuid or ""),
        flow=holder.flow if holder else "",
        action=holder.action if holder else lock.holder_action,
        state=holder.state if holder else "",
        project_id=holder.project_id if holder else "",
        user_name=holder.user_name if holder else "",
        instance_uuid=str(holder.instance_uuid or "") if holder else "",
        waiters=[_waiter(context, run) for run in waiting],
    )


def _waiter(context: RequestContext, run: WorkflowRun) -> WaiterView:
    if not context.may_see_project(run.project_id):
        return WaiterView("", "", "", run.created_at)
    return WaiterView(str(run.uuid), run.action, run.project_id, run.created_at)


def _is_wanted(view: LockView, query: LockQuery) -> bool:
    resource, _, cell = query.marker.rpartition("@")
    return query.run_uuid in ("", view.run_uuid) and view.place > (resource, cell)
