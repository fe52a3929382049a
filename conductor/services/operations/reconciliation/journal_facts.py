"""Facts of a journal about work under way: unfinished runs, locks and waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import F, Q

from conductor.core.errors import KeptByHost
from conductor.core.states import FINAL_RUN_STATES, RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import LockWait, OutboxMessage, ResourceLock, StepRecord, WorkflowRun


@dataclass(frozen=True, slots=True)
class RunFact:
    """A run that is unfinished, waits for an operator, has only just ended, or has uncompensated effects."""

    uuid: str
    flow: str
    instance_uuid: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockFact:
    """A lock, or a wait for one, whose holder has ended or is a run of another database."""

    pk: str | int
    resource: str
    holder_uuid: str
    holder_alias: str  # "": a run of the same database
    has_ended: bool


@dataclass(frozen=True)
class JournalFacts:
    alias: str
    runs: tuple[RunFact, ...]
    locks: tuple[LockFact, ...]
    waits: tuple[LockFact, ...]
    late: tuple[tuple[str, str, str], ...]  # uuid, flow, instance of overdue runs that no conductor has claimed
    held_up: tuple[RunFact, ...]  # rollback delayed by an unresponsive host, which has no deferred commands any more

    @cached_property
    def run_uuids(self) -> frozenset[str]:
        return frozenset(run.uuid for run in self.runs)

    @cached_property
    def busy(self) -> frozenset[str]:
        """Resources of all runs that are unfinished or have only just ended."""
        named = {resource for run in self.runs for resource in run.resources}
        instances = {f"instance:{run.instance_uuid}" for run in self.runs if run.instance_uuid}
        held = {lock.resource for lock in (*self.locks, *self.waits) if not lock.has_ended and not lock.holder_alias}
        return frozenset(named | instances | held)


# Facts read before a run ended, and reports of hosts from before, do not show its effects yet.
HEARTBEATS_TO_SETTLE = 3

# Longer than any lease and any pause between sweeps. A run that waits longer will not be notified.
LATE_SECONDS = 600.0


def load(alias: str) -> JournalFacts:
    """Read the facts with six queries."""
    is_unsettled = Q(finished_at__gt=database_now(-HEARTBEATS_TO_SETTLE * settings.NOVELLA_HEARTBEAT_SECONDS))
    at_work = WorkflowRun.objects.using(alias).filter(~Q(state__in=FINAL_RUN_STATES) | is_unsettled)
    rows = at_work.values_list(*RUN)
    late = WorkflowRun.objects.using(alias).live().filter(wake_at__lt=database_now(-LATE_SECONDS))
    late = late.exclude(owner__isnull=False, lease_expires_at__gt=database_now(-LATE_SECONDS))
    return JournalFacts(
        alias=alias,
        runs=tuple(_run(row) for row in rows),
        locks=tuple(_lock(row) for row in ResourceLock.objects.using(alias).values_list(*LOCK)),
        waits=tuple(
            LockFact(pk, resource, str(uuid), "", state in FINAL_RUN_STATES)
            for pk, resource, uuid, state in LockWait.objects.using(alias).values_list(
                "pk", "resource", "run__uuid", "run__state"
            )
        ),
        late=tuple((str(uuid), flow, str(of or "")) for uuid, flow, of in late.values_list(*LATE)),
        held_up=held_up(alias),
    )


def held_up(alias: str, **which: Any) -> tuple[RunFact, ...]:
    """Return runs, or those with these field values, with a rollback that waited for a host which has done its part by
    now.

    Only runs in which a step was kept by its host are read. Those with another failed undo are left out: an operator
    must decide.
    """
    undo = StepRecord.objects.using(alias).filter(direction="undo", run__attempt=F("attempt"))
    undo = undo.filter(run__state=RunState.FAILED_NOT_CLEAN, **{f"run__{name}": value for name, value in which.items()})
    kept = undo.filter(error__class=KeptByHost.__name__)
    undo = undo.filter(run__in=kept.values("run")).order_by("pk")
    newest: dict[tuple[str, int], bool] = {}
    runs: dict[str, RunFact] = {}
    for index, state, error, *row in undo.values_list("index", "state", "error", *(f"run__{name}" for name in RUN)):
        run = _run(row)
        runs[run.uuid] = run
        newest[run.uuid, index] = state == StepState.UNDONE or (error or {}).get("class") == KeptByHost.__name__
    deferred = OutboxMessage.objects.using(alias).filter(is_deferred=True, run_uuid__in=runs)
    unfit = {uuid for (uuid, _), is_fit in newest.items() if not is_fit}
    unfit.update(map(str, deferred.values_list("run_uuid", flat=True)))
    return tuple(run for uuid, run in runs.items() if uuid not in unfit)


RUN = ("uuid", "flow", "instance_uuid", "resources")
LOCK = ("resource", "run__uuid", "run__state", "holder_uuid", "holder_alias")
LATE = ("uuid", "flow", "instance_uuid")


def _run(row: Sequence[Any]) -> RunFact:
    uuid, flow, of, resources = row
    return RunFact(str(uuid), flow, str(of or ""), tuple(resources or ()))


def _lock(row: tuple[object, ...]) -> LockFact:
    resource, run_uuid, run_state, holder_uuid, holder_alias = row
    return LockFact(
        str(resource),
        str(resource),
        str(run_uuid or holder_uuid or ""),
        str(holder_alias),
        run_state in FINAL_RUN_STATES,
    )
