"""Locks of workflows and waits for locks: holders, queues, leases, refused writes and deadlocks."""

from __future__ import annotations

from collections import Counter, defaultdict
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
from conductor.db.transactions import database_time
from conductor.journal.models import Event, LockWait, ResourceLock, WorkflowRun
from conductor.services.workflows import duration_statistics, presenter
from conductor.services.workflows.types import RunView

MOST_WAITS = 500
MOST_REFUSED = 50
REFUSED = "run.write_refused"

Place = tuple[str, str]  # a database and a resource, as volumes and ports are locked in more than one


@dataclass(frozen=True)
class Held:
    """A lock of one of the runs. `waiting` is the number of waits for it."""

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
    """A lock that one of the runs waits for, and its holder as far as the caller may see it.

    `place` in the queue counts from 1. `is_foreign`: the holder belongs to another project.
    """

    resource: str
    run_uuid: str
    place: int
    holder: RunView | None
    is_foreign: bool = False
    heartbeat_at: datetime | None = None
    expected_at: datetime | None = None  # when a run like the holder typically ends

    @property
    def is_free(self) -> bool:
        return self.holder is None and not self.is_foreign and self.place == 1


@dataclass(frozen=True)
class RunLease:
    """The current lease of a run. With `token` 0 it never had an owner."""

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
    """A write that an owner tried with an outdated fencing token."""

    run_uuid: str
    at: datetime
    token: int
    newest: int
    owner: str
    cell: str


@dataclass(frozen=True)
class WaitEdge:
    """`waiter` waits for `resource`, which `holder` has. `is_in_cycle`: both are in a deadlock."""

    waiter: str
    holder: str
    resource: str
    is_in_cycle: bool = False


@dataclass(frozen=True)
class LocksView:
    held: list[Held]
    awaited: list[Awaited]
    leases: list[RunLease]
    refused: list[RefusedWrite]
    edges: list[WaitEdge]
    runs: Mapping[str, RunView] = field(default_factory=dict)  # those at the ends of the edges
    victim: str = ""  # in a deadlock: the run with the cheapest cancellation


@dataclass(frozen=True)
class _LockRows:
    """Rows of one database."""

    locks: list[ResourceLock]
    waits: list[LockWait]
    refused: list[Event]
    now: datetime


@dataclass(frozen=True)
class _Queues:
    """Holders and waits of locks in all databases; `runs` are all of their runs, each with its database."""

    locks: Mapping[Place, ResourceLock]
    waits: list[tuple[Place, WorkflowRun]]  # in queue order
    runs: Mapping[str, tuple[str, WorkflowRun]]


def of_runs(context: RequestContext, runs: Sequence[RunView]) -> LocksView:
    """Return the locks and waits of runs: four queries per database, and one for holders in other databases."""
    uuids = [run.uuid for run in runs]
    found = scatter_gather(lambda alias: _rows(alias, uuids), journal_aliases()).answers
    queues = _queues(found)
    mine = set(uuids)
    held, awaited = _held(context, queues, mine), _awaited(context, queues, mine)
    if not context.is_admin:
        return LocksView(held, awaited, leases=[], refused=[], edges=[])
    edges = _edges(queues, mine)
    ends = {end for edge in edges for end in (edge.waiter, edge.holder)} & set(queues.runs)
    return LocksView(
        held=held,
        awaited=awaited,
        leases=[_lease(run, found) for run in runs if run.state in LIVE_RUN_STATES],
        refused=[_refused(row, alias) for alias, rows in found.items() for row in rows.refused],
        edges=edges,
        runs={uuid: presenter.brief(context, *queues.runs[uuid]) for uuid in ends},
        victim=_victim(edges, queues.runs),
    )


def _queues(found: Mapping[str, _LockRows]) -> _Queues:
    locks = {(alias, lock.resource): lock for alias, rows in found.items() for lock in rows.locks}
    waits = [((alias, wait.resource), wait.run) for alias, rows in found.items() for wait in rows.waits]
    runs = {str(run.uuid): (alias, run) for (alias, _), run in waits}
    runs |= {str(lock.run.uuid): (alias, lock.run) for (alias, _), lock in locks.items() if lock.run is not None}
    elsewhere: dict[str, set[str]] = defaultdict(set)
    for place, _ in waits:
        lock = locks.get(place)
        if lock is not None and lock.run is None and _holder(lock) not in runs:
            elsewhere[lock.holder_alias].add(_holder(lock))
    if elsewhere:
        others = scatter_gather(lambda alias: _with_uuids(alias, elsewhere[alias]), elsewhere).answers
        runs |= {str(run.uuid): (alias, run) for alias, rows in others.items() for run in rows}
    return _Queues(locks, waits, runs)


def _with_uuids(alias: str, uuids: Iterable[str]) -> list[WorkflowRun]:
    return list(WorkflowRun.objects.using(alias).filter(uuid__in=list(uuids)))


def _rows(alias: str, uuids: Sequence[str]) -> _LockRows:
    waits = LockWait.objects.using(alias).select_related("run").order_by("run_id", "resource")
    wanted = list(waits[:MOST_WAITS])
    involved = Q(run__uuid__in=uuids) | Q(holder_uuid__in=uuids) | Q(resource__in={wait.resource for wait in wanted})
    locks = ResourceLock.objects.using(alias).filter(involved).select_related("run").order_by("resource")
    refused = Event.objects.using(alias).filter(run_uuid__in=uuids, kind=REFUSED).order_by("-pk")
    return _LockRows(list(locks), wanted, list(refused[:MOST_REFUSED]), database_time(alias))


def _holder(lock: ResourceLock) -> str:
    return str(lock.run.uuid if lock.run else lock.holder_uuid or "")


def _held(context: RequestContext, queues: _Queues, mine: set[str]) -> list[Held]:
    """Return each lock once, also where a run has it in its own database and in that of the resource."""
    behind = Counter(place for place, run in queues.waits if place in queues.locks and not _is_its(queues, place, run))
    found: dict[tuple[str, str], Held] = {}
    for place, lock in queues.locks.items():
        holder = _holder(lock)
        if holder in mine and (context.is_admin or not lock.resource.startswith("host:")):
            one = found.get((lock.resource, holder))
            waiting = behind[place] + (one.waiting if one else 0)
            found[lock.resource, holder] = Held(lock.resource, holder, lock.granted_at, waiting)
    return list(found.values())


def _is_its(queues: _Queues, place: Place, run: WorkflowRun) -> bool:
    return _holder(queues.locks[place]) == str(run.uuid)


def _awaited(context: RequestContext, queues: _Queues, mine: set[str]) -> list[Awaited]:
    """Return the locks that our runs wait for. Free ones are listed only where all locks of a run are free."""
    places: Counter[Place] = Counter()
    found = []
    for place, run in queues.waits:
        places[place] += 1
        resource = place[1]
        if str(run.uuid) in mine and (context.is_admin or not resource.startswith("host:")):
            found.append(_awaited_lock(context, queues, place, run, places[place]))
    held_up = {one.run_uuid for one in found if not one.is_free}
    return [one for one in found if not one.is_free or one.run_uuid not in held_up]


def _awaited_lock(context: RequestContext, queues: _Queues, place: Place, run: WorkflowRun, number: int) -> Awaited:
    lock = queues.locks.get(place)
    alias, holder = queues.runs.get(_holder(lock), ("", None)) if lock is not None else ("", None)
    is_foreign = holder is not None and not context.may_see_project(holder.project_id)
    view = presenter.brief(context, alias, holder) if holder is not None and not is_foreign else None
    return Awaited(
        place[1],
        str(run.uuid),
        place=number,
        holder=view,
        is_foreign=is_foreign,
        heartbeat_at=_heartbeat(view),
        expected_at=_expected(holder),
    )


def _expected(holder: WorkflowRun | None) -> datetime | None:
    typical = duration_statistics.of_flows().get(holder.flow) if holder is not None else None
    return holder.created_at + timedelta(seconds=typical.p50) if holder is not None and typical is not None else None


def _heartbeat(view: RunView | None) -> datetime | None:
    """Return the time of the last heartbeat. Each one renews the lease for its full length."""
    if view is None or view.lease_expires_at is None or not view.owner:
        return None
    return view.lease_expires_at - timedelta(seconds=settings.NOVELLA_LEASE_SECONDS)


def lease_of(run: RunView) -> RunLease:
    """Return a run's owner and last heartbeat; without the remaining seconds of the lease."""
    return RunLease(run.uuid, run.owner, run.fencing_token, _heartbeat(run), run.lease_expires_at)


def _lease(run: RunView, found: Mapping[str, _LockRows]) -> RunLease:
    ttl = float(settings.NOVELLA_LEASE_SECONDS)
    rows = found.get(run.cell or "default")
    left = (run.lease_expires_at - rows.now).total_seconds() if rows is not None and run.lease_expires_at else 0.0
    return RunLease(run.uuid, run.owner, run.fencing_token, _heartbeat(run), run.lease_expires_at, max(0.0, left), ttl)


def _refused(row: Event, alias: str) -> RefusedWrite:
    data: Mapping[str, Any] = row.data
    token, newest = int(data.get("token") or 0), int(data.get("newest") or 0)
    cell = str(data.get("in_cell") or alias)
    return RefusedWrite(str(row.run_uuid), row.created_at, token, newest, str(data.get("owner", "")), cell)


def _edges(queues: _Queues, mine: Iterable[str]) -> list[WaitEdge]:
    """Return the wait edges that connect to our runs, directly or through others."""
    pairs = [
        (str(run.uuid), _holder(queues.locks[place]), place[1])
        for place, run in queues.waits
        if place in queues.locks and not _is_its(queues, place, run)
    ]
    near = set(mine)
    while grown := {end for one, other, _ in pairs if one in near or other in near for end in (one, other)} - near:
        near |= grown
    kept = [pair for pair in pairs if pair[0] in near]
    cycles = cycles_in([(one, other) for one, other, _ in kept])
    return [WaitEdge(one, other, resource, one in cycles and other in cycles) for one, other, resource in kept]


def cycles_in(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the runs that wait, through others, for themselves."""
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


def _victim(edges: Sequence[WaitEdge], runs: Mapping[str, tuple[str, WorkflowRun]]) -> str:
    """Return the cancellable run in a deadlock with the fewest steps done, of these the youngest."""
    cycle = {end for edge in edges if edge.is_in_cycle for end in (edge.waiter, edge.holder)}
    may = [runs[uuid][1] for uuid in cycle if uuid in runs and runs[uuid][1].is_cancellable]
    if not may:
        return ""
    return str(min(may, key=lambda run: (run.position, -run.created_at.timestamp())).uuid)
