"""What a workflow holds and what it waits for: who has it, who stands before it, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.states import LIVE_RUN_STATES
from conductor.journal.models import Event, LockWait, ResourceLock, WorkflowRun
from conductor.services import flow_views, usual_times
from conductor.services.values import RunView
from conductor.transactions import database_time

MOST_WAITS = 500
MOST_REFUSED = 50
REFUSED = "run.write_refused"


@dataclass(frozen=True)
class Held:
    """A lock of one of the runs. `waiting` is how many stand behind it."""

    resource: str
    run_uuid: str
    since: datetime
    waiting: int

    @property
    def kind(self) -> str:
        return self.resource.partition(":")[0]

    @property
    def name(self) -> str:
        return self.resource.partition(":")[2]


@dataclass(frozen=True)
class Awaited:
    """A lock that one of the runs waits for, and who holds it, as far as the asker may know.

    `place` counts from 1: who stands there gets it next. `is_foreign`: the holder is another project's.
    """

    resource: str
    run_uuid: str
    place: int
    holder: RunView | None
    is_foreign: bool = False
    heartbeat_at: datetime | None = None
    expected_at: datetime | None = None  # when a run like the holder usually ends


@dataclass(frozen=True)
class Lease:
    """Who owns a run now. `token` 0: nobody has owned it yet."""

    run_uuid: str
    owner: str
    token: int
    heartbeat_at: datetime | None
    expires_at: datetime | None
    seconds_left: float = 0.0
    ttl: float = 0.0

    @property
    def share(self) -> float:
        return min(self.seconds_left / self.ttl, 1.0) if self.ttl else 0.0

    @property
    def tone(self) -> str:
        """Amber when half of the lease has passed without a heartbeat, red when all of it has."""
        if self.expires_at is None or not self.owner:
            return "none"
        return "bad" if self.seconds_left <= 0 else "waiting" if self.seconds_left < self.ttl / 2 else "good"


@dataclass(frozen=True)
class RefusedWrite:
    """A write that an owner tried with a token that was no longer the newest."""

    run_uuid: str
    at: datetime
    token: int
    newest: int
    owner: str
    cell: str


@dataclass(frozen=True)
class WaitEdge:
    """`waiter` waits for `resource`, which `holder` has. `is_in_ring`: they wait for each other, round and round."""

    waiter: str
    holder: str
    resource: str
    is_in_ring: bool = False


@dataclass(frozen=True)
class LocksView:
    held: list[Held]
    awaited: list[Awaited]
    leases: list[Lease]
    refused: list[RefusedWrite]
    edges: list[WaitEdge]
    names: Mapping[str, str] = field(default_factory=dict)  # of the runs in the edges
    victim: str = ""  # of a ring: the run whose end costs the least


@dataclass(frozen=True)
class _Found:
    """Rows of one database."""

    locks: list[ResourceLock]
    waits: list[LockWait]
    refused: list[Event]
    now: datetime


def of_runs(context: RequestContext, runs: Sequence[RunView]) -> LocksView:
    """Locks of a story: four queries per database, however many runs and locks."""
    uuids = [run.uuid for run in runs]
    found = scatter_gather(lambda alias: _rows(alias, uuids), journal_aliases()).answers
    locks = [lock for rows in found.values() for lock in rows.locks]
    waits = [(wait, alias) for alias, rows in found.items() for wait in rows.waits]
    mine = set(uuids)
    edges = _edges(waits, locks, mine)
    return LocksView(
        held=_held(locks, waits, mine, context),
        awaited=_awaited(context, waits, locks, mine),
        leases=[_lease(run, found) for run in runs if context.is_admin and run.state in LIVE_RUN_STATES],
        refused=[_refused(row, alias) for alias, rows in found.items() for row in rows.refused]
        if context.is_admin
        else [],
        edges=edges if context.is_admin else [],
        names=_names(waits, locks) if context.is_admin else {},
        victim=_victim(edges, waits, locks) if context.is_admin else "",
    )


def _rows(alias: str, uuids: Sequence[str]) -> _Found:
    waits = LockWait.objects.using(alias).select_related("run").order_by("run_id", "resource")
    wanted = list(waits[:MOST_WAITS])
    involved = Q(run__uuid__in=uuids) | Q(holder_uuid__in=uuids) | Q(resource__in={wait.resource for wait in wanted})
    locks = ResourceLock.objects.using(alias).filter(involved).select_related("run").order_by("resource")
    refused = Event.objects.using(alias).filter(run_uuid__in=uuids, kind=REFUSED).order_by("-pk")
    return _Found(list(locks), wanted, list(refused[:MOST_REFUSED]), database_time(alias))


def _holder(lock: ResourceLock) -> str:
    return str(lock.run.uuid if lock.run else lock.holder_uuid or "")


def _held(
    locks: Iterable[ResourceLock], waits: Sequence[tuple[LockWait, str]], mine: set[str], context: RequestContext
) -> list[Held]:
    behind: dict[str, int] = {}
    for wait, _ in waits:
        behind[wait.resource] = behind.get(wait.resource, 0) + 1
    return [
        Held(lock.resource, _holder(lock), lock.granted_at, behind.get(lock.resource, 0))
        for lock in locks
        if _holder(lock) in mine and (context.is_admin or not lock.resource.startswith("host:"))
    ]


def _awaited(
    context: RequestContext, waits: Sequence[tuple[LockWait, str]], locks: Sequence[ResourceLock], mine: set[str]
) -> list[Awaited]:
    by_resource = {lock.resource: lock for lock in locks}
    queues: dict[str, list[str]] = {}
    found = []
    for wait, alias in waits:
        queue = queues.setdefault(wait.resource, [])
        queue.append(str(wait.run.uuid))
        lock = by_resource.get(wait.resource)
        if str(wait.run.uuid) not in mine or (wait.resource.startswith("host:") and not context.is_admin):
            continue
        holder = lock.run if lock else None
        is_foreign = holder is not None and not context.may_see_project(holder.project_id)
        view = flow_views.brief(context, alias, holder) if holder is not None and not is_foreign else None
        found.append(
            Awaited(
                wait.resource,
                str(wait.run.uuid),
                place=len(queue),
                holder=view,
                is_foreign=is_foreign,
                heartbeat_at=_heartbeat(view),
                expected_at=_expected(holder),
            )
        )
    return found


def _expected(holder: WorkflowRun | None) -> datetime | None:
    usual = usual_times.of_flows().get(holder.flow) if holder is not None else None
    return holder.created_at + timedelta(seconds=usual.p50) if holder is not None and usual is not None else None


def _heartbeat(view: RunView | None) -> datetime | None:
    """Each heartbeat pushes the end of the lease out by its whole length."""
    if view is None or view.lease_expires_at is None or not view.owner:
        return None
    return view.lease_expires_at - timedelta(seconds=settings.NOVELLA_LEASE_SECONDS)


def _lease(run: RunView, found: Mapping[str, _Found]) -> Lease:
    ttl = float(settings.NOVELLA_LEASE_SECONDS)
    rows = found.get(run.cell or "default")
    left = (run.lease_expires_at - rows.now).total_seconds() if rows is not None and run.lease_expires_at else 0.0
    return Lease(run.uuid, run.owner, run.fencing_token, _heartbeat(run), run.lease_expires_at, max(0.0, left), ttl)


def _refused(row: Event, alias: str) -> RefusedWrite:
    data: Mapping[str, Any] = row.data
    token, newest = int(data.get("token") or 0), int(data.get("newest") or 0)
    cell = str(data.get("in_cell") or alias)
    return RefusedWrite(str(row.run_uuid), row.created_at, token, newest, str(data.get("owner", "")), cell)


def _edges(waits: Iterable[tuple[LockWait, str]], locks: Iterable[ResourceLock], mine: Iterable[str]) -> list[WaitEdge]:
    """Who waits for whom, as far as it reaches from or to our runs."""
    holders = {lock.resource: _holder(lock) for lock in locks}
    pairs = [
        (str(wait.run.uuid), holders[wait.resource], wait.resource) for wait, _ in waits if wait.resource in holders
    ]
    near = set(mine)
    while grown := {end for one, other, _ in pairs if one in near or other in near for end in (one, other)} - near:
        near |= grown
    kept = [pair for pair in pairs if pair[0] in near]
    rings = rings_in([(one, other) for one, other, _ in kept])
    return [WaitEdge(one, other, resource, one in rings and other in rings) for one, other, resource in kept]


def rings_in(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Those who wait, through others, for themselves."""
    after: dict[str, set[str]] = {}
    for one, other in pairs:
        after.setdefault(one, set()).add(other)
    found = set()
    for start in after:
        reached: set[str] = set()
        ahead = set(after[start])
        while ahead:
            reached |= ahead
            ahead = {further for one in ahead for further in after.get(one, ())} - reached
        if start in reached:
            found.add(start)
    return found


def _victim(edges: Sequence[WaitEdge], waits: Iterable[tuple[LockWait, str]], locks: Iterable[ResourceLock]) -> str:
    """Of those in a ring that may still be cancelled: who has done the least, and of these the youngest."""
    ring = {end for edge in edges if edge.is_in_ring for end in (edge.waiter, edge.holder)}
    known = {str(run.uuid): run for run in _runs(waits, locks)}
    may = [known[uuid] for uuid in ring if uuid in known and known[uuid].is_cancellable]
    if not may:
        return ""
    return str(min(may, key=lambda run: (run.position, -run.created_at.timestamp())).uuid)


def _names(waits: Iterable[tuple[LockWait, str]], locks: Iterable[ResourceLock]) -> Mapping[str, str]:
    return {str(run.uuid): f"{run.action} {run.instance_name}".strip() for run in _runs(waits, locks)}


def _runs(waits: Iterable[tuple[LockWait, str]], locks: Iterable[ResourceLock]) -> Iterable[WorkflowRun]:
    yield from (wait.run for wait, _ in waits)
    yield from (lock.run for lock in locks if lock.run is not None)
