"""What a journal says about work under way: runs without an end, locks and waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import F, Q

from conductor.core.errors import KeptByHost
from conductor.core.states import FINAL_RUN_STATES, RunState, StepState
from conductor.journal.models import LockWait, OutboxMessage, ResourceLock, StepRecord, WorkflowRun
from conductor.transactions import database_now


@dataclass(frozen=True, slots=True)
class RunFact:
    """A run that has not ended, that waits for an operator, that has only just ended, or that left something behind."""

    uuid: str
    flow: str
    instance_uuid: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockFact:
    """A lock, or a wait for one: its holder has ended, or its holder is a run of another database."""

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
    late: tuple[tuple[str, str, str], ...]  # uuid, flow, instance of runs that nobody has taken up for long
    held_up: tuple[RunFact, ...]  # whose undo a silent host held up that owes nothing any more

    @cached_property
    def run_uuids(self) -> frozenset[str]:
        return frozenset(run.uuid for run in self.runs)

    @cached_property
    def busy(self) -> frozenset[str]:
        """Resources of everything that has not ended here, or only just."""
        named = {resource for run in self.runs for resource in run.resources}
        instances = {f"instance:{run.instance_uuid}" for run in self.runs if run.instance_uuid}
        held = {lock.resource for lock in (*self.locks, *self.waits) if not lock.has_ended and not lock.holder_alias}
        return frozenset(named | instances | held)


# What was read before a run ended, and what a host reported before, does not yet say what the run did.
HEARTBEATS_TO_SETTLE = 3

# Longer than any lease and any pause between sweeps: whoever waits longer is not rung for.
LATE_SECONDS = 600.0


def load(alias: str) -> JournalFacts:
    """Six queries."""
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
    """Runs, or those of them that these fields name, whose undo waited for a host that has done now what it had to.

    Where something else could not be undone either, a person must look.
    """
    undo = StepRecord.objects.using(alias).filter(direction="undo", run__attempt=F("attempt"))
    undo = undo.filter(run__state=RunState.FAILED_NOT_CLEAN, **{f"run__{name}": value for name, value in which.items()})
    undo = undo.order_by("pk")
    newest: dict[tuple[str, int], bool] = {}
    runs: dict[str, RunFact] = {}
    for index, state, error, *row in undo.values_list("index", "state", "error", *(f"run__{name}" for name in RUN)):
        run = _run(row)
        runs[run.uuid] = run
        newest[run.uuid, index] = state == StepState.UNDONE or (error or {}).get("class") == KeptByHost.__name__
    owing = OutboxMessage.objects.using(alias).filter(is_owed=True, run_uuid__in=runs)
    unfit = {uuid for (uuid, _), is_fit in newest.items() if not is_fit}
    unfit.update(map(str, owing.values_list("run_uuid", flat=True)))
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
