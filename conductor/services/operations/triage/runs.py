"""Workflow problems: incomplete cleanup, stopped, expired lease, unclaimed, waiting for approval, or slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.phrases import phrase, phrases
from conductor.core.states import LIVE_RUN_STATES, RunState, WaitCause
from conductor.db.transactions import database_now, database_time
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun
from conductor.services.operations.triage.values import HELD_UP, LEFT_BEHIND, WAITED_FOR, TriageItem, span
from conductor.services.workflows import approvals, duration_statistics
from conductor.services.workflows.approvals import ApprovalView
from conductor.services.workflows.duration_statistics import DurationStatistics

PREFIX = "wf:"
NOT_CLEAN, NEEDS_OPERATOR, OWNER_UNRESPONSIVE, NOT_TAKEN_UP, SLOW, APPROVAL = (
    "not_clean",
    "needs_operator",
    "owner_unresponsive",
    "not_taken_up",
    "slow",
    "approval",
)
TITLES = {
    NOT_CLEAN: "Cleanup incomplete",
    NEEDS_OPERATOR: "Needs an operator",
    OWNER_UNRESPONSIVE: "Owner unresponsive",
    NOT_TAKEN_UP: "Not claimed by a conductor",
    SLOW: "Slow",
    APPROVAL: "Waiting for approval",
}
LOUD = (RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)
MOST_RUNS = 200  # of each sort and database; a longer list is cut, and the page says so
GRACE_SECONDS = 60.0  # due runs are claimed, and expired ones taken over, well within this time
MOST_UNCOMPENSATED = 3


@dataclass(frozen=True)
class _RunAsRead:
    """A run as read, with the time of its database and its locks."""

    alias: str
    run: WorkflowRun
    now: datetime
    typical: DurationStatistics | None
    locks: Sequence[str]
    waiting: int
    asked: ApprovalView | None

    @property
    def age(self) -> float:
        return (self.now - self.run.created_at).total_seconds()


def found(project_names: Callable[[set[str]], Mapping[str, str]]) -> tuple[list[TriageItem], Mapping[str, str]]:
    """Return all workflow problems, and the cells that are down."""
    typical = duration_statistics.of_flows()
    gathered = scatter_gather(lambda alias: _look(alias, typical), journal_aliases())
    seen = [one for answer in gathered.answers.values() for one in answer]
    names = project_names({one.run.project_id for one in seen})
    return [_item(one, names) for one in seen], gathered.failures


def _look(alias: str, typical: Mapping[str, DurationStatistics]) -> list[_RunAsRead]:
    now = database_time(alias)
    rows = WorkflowRun.objects.using(alias)
    ended = rows.filter(state__in=LOUD).order_by("-pk")[:MOST_RUNS]
    is_wanted = _is_stuck(alias) | _is_slow(typical)
    live = rows.filter(is_wanted, state__in=LIVE_RUN_STATES).order_by("pk")[:MOST_RUNS]
    runs = _with_asked(rows, [*ended, *live])
    held, waiting = _held(alias, runs)
    requested = approvals.open_of(alias, runs)
    return [
        _RunAsRead(
            alias=alias,
            run=run,
            now=now,
            typical=typical.get(run.flow),
            locks=held.get(run.pk, ()),
            waiting=sum(waiting[resource] for resource in held.get(run.pk, ())),
            asked=requested.get(run.pk),
        )
        for run in runs
    ]


def _with_asked(rows: Any, runs: Sequence[WorkflowRun]) -> list[WorkflowRun]:
    """Return the runs, and those with a pending approval."""
    known = {run.pk for run in runs}
    asking = rows.filter(approval__isnull=False, state__in=LIVE_RUN_STATES).order_by("pk")[:MOST_RUNS]
    others = [run for run in asking if run.pk not in known]
    requested = approvals.open_of(rows.db, others)
    return [*runs, *(run for run in others if run.pk in requested)]


def _is_stuck(alias: str) -> Q:
    """Select runs whose lease expired a while ago, and overdue ones without an owner unless they wait for a lock."""
    unresponsive = Q(owner__isnull=False, lease_expires_at__lt=database_now(-GRACE_SECONDS))
    waits_for_lock = Exists(LockWait.objects.using(alias).filter(run=OuterRef("pk")))
    return unresponsive | (Q(owner__isnull=True, wake_at__lt=database_now(-GRACE_SECONDS)) & ~Q(waits_for_lock))


def _is_slow(typical: Mapping[str, DurationStatistics]) -> Q:
    wanted = Q(pk__in=[])
    for flow, times in typical.items():
        wanted |= Q(flow=flow, created_at__lt=database_now(-times.p95))
    return wanted


def _held(alias: str, runs: Sequence[WorkflowRun]) -> tuple[dict[int, list[str]], Counter[str]]:
    """Return the locks of each run, and the number of waits for each lock."""
    held: dict[int, list[str]] = {}
    rows = ResourceLock.objects.using(alias).filter(run_id__in=[run.pk for run in runs])
    for run_id, resource in rows.values_list("run_id", "resource"):
        assert run_id is not None
        held.setdefault(run_id, []).append(resource)
    names = [resource for resources in held.values() for resource in resources]
    waits = LockWait.objects.using(alias).filter(resource__in=names)
    return held, Counter(waits.values_list("resource", flat=True))


def _kind(seen: _RunAsRead) -> str:
    run = seen.run
    if seen.asked is not None:
        return APPROVAL
    if run.state in LOUD:
        return NOT_CLEAN if run.state == RunState.FAILED_NOT_CLEAN else NEEDS_OPERATOR
    late = seen.now - timedelta(seconds=GRACE_SECONDS)
    if run.owner is not None and run.lease_expires_at is not None and run.lease_expires_at < late:
        return OWNER_UNRESPONSIVE
    if run.owner is None and run.wake_at < late and _waits_for(run)[0] != WaitCause.LOCK:
        return NOT_TAKEN_UP
    return SLOW


def _item(seen: _RunAsRead, project_names: Mapping[str, str]) -> TriageItem:
    run, kind = seen.run, _kind(seen)
    since = {
        NOT_CLEAN: run.finished_at,
        NEEDS_OPERATOR: run.finished_at,
        OWNER_UNRESPONSIVE: run.lease_expires_at,
        NOT_TAKEN_UP: run.wake_at,
        APPROVAL: seen.asked.asked_at if seen.asked else None,
    }.get(kind)
    return TriageItem(
        key=f"{PREFIX}{run.uuid}",
        kind=kind,
        title=TITLES[kind],
        name=_name(run),
        level=_level(kind, seen),
        why=_WHY[kind](seen),
        since=since or run.created_at,
        hurts=_hurts(seen, project_names),
        hurt=1 + seen.waiting,
        state=run.state,
        cell="" if seen.alias == API_ALIAS else seen.alias,
        run_uuid=str(run.uuid),
        instance_uuid=str(run.instance_uuid or ""),
        project_id=run.project_id,
    )


def _name(run: WorkflowRun) -> str:
    action = run.action.replace("_", " ").replace("-", " ").capitalize()
    subject = run.instance_name or str(run.instance_uuid or run.uuid)[:8]
    return phrase("%(action)s %(subject)s", action=phrase(action), subject=subject)


def _level(kind: str, seen: _RunAsRead) -> int:
    if seen.run.state in LOUD:
        return LEFT_BEHIND
    return HELD_UP if seen.waiting or (seen.locks and kind != SLOW) else WAITED_FOR


def _hurts(seen: _RunAsRead, project_names: Mapping[str, str]) -> str:
    run = seen.run
    project = project_names.get(run.project_id, run.project_id[:8])
    who = phrase("%(user)s in %(project)s", user=run.user_name or run.user_id[:8], project=project)
    if not seen.waiting:
        return who
    return phrases(
        "%(who)s, and %(count)s workflow waiting for its locks",
        "%(who)s, and %(count)s workflows waiting for its locks",
        seen.waiting,
        who=who,
    )


def _why_not_clean(seen: _RunAsRead) -> str:
    left = [str(one) for one in seen.run.uncompensated]
    words = _error(seen.run)
    if not left:
        return words or phrase("Rollback failed.")
    things, more = ", ".join(left[:MOST_UNCOMPENSATED]), len(left) - MOST_UNCOMPENSATED
    if more > 0:
        behind = phrase("Not cleaned up: %(things)s and %(more)s more.", things=things, more=more)
    else:
        behind = phrase("Not cleaned up: %(things)s.", things=things)
    return phrase("%(behind)s %(cause)s", behind=behind, cause=words) if words else behind


def _why_needs_operator(seen: _RunAsRead) -> str:
    return _error(seen.run) or phrase(
        "Stopped in step “%(step)s” and can't continue automatically.", step=_step(seen.run)
    )


def _why_unresponsive(seen: _RunAsRead) -> str:
    since = span((seen.now - (seen.run.lease_expires_at or seen.now)).total_seconds())
    return phrase(
        "The lease of %(owner)s expired %(since)s ago in step “%(step)s” and wasn't taken over.",
        owner=seen.run.owner,
        since=since,
        step=_step(seen.run),
    )


def _why_not_taken_up(seen: _RunAsRead) -> str:
    since = span((seen.now - seen.run.wake_at).total_seconds())
    return phrase(
        "Overdue for %(since)s: no conductor of the queue %(queue)s has claimed it.",
        since=since,
        queue=seen.run.queue,
    )


def _why_approval(seen: _RunAsRead) -> str:
    assert seen.asked is not None, "that is why it is of this kind"
    what = phrase(seen.asked.title)
    return phrase(
        "%(by)s requests approval: %(what)s. %(reason)s", by=seen.asked.by, what=what, reason=seen.asked.reason
    )


def _why_slow(seen: _RunAsRead) -> str:
    typical = phrase("longer than usual")
    if seen.typical:
        typical = phrase("p95: %(time)s", time=span(seen.typical.p95))
    where = {"step": _step(seen.run), "time": span(seen.age), "typical": typical}
    cause, detail = _waits_for(seen.run)
    if not cause:
        return phrase("In step “%(step)s” for %(time)s; %(typical)s.", **where)
    what = " ".join(filter(None, (cause.replace("_", " "), detail)))
    return phrase("In step “%(step)s” for %(time)s; %(typical)s. Waiting for %(what)s.", what=what, **where)


_WHY: Mapping[str, Callable[[_RunAsRead], str]] = {
    NOT_CLEAN: _why_not_clean,
    NEEDS_OPERATOR: _why_needs_operator,
    OWNER_UNRESPONSIVE: _why_unresponsive,
    NOT_TAKEN_UP: _why_not_taken_up,
    SLOW: _why_slow,
    APPROVAL: _why_approval,
}


def _error(run: WorkflowRun) -> str:
    error: Mapping[str, Any] = run.error or {}
    message = str(error.get("message", "")).strip()
    if not message:
        return ""
    step = str(error.get("step", ""))
    if not step:
        return phrase("Root cause: %(message)s", message=message)
    return phrase("Root cause, in step %(step)s: %(message)s", step=step, message=message)


def _step(run: WorkflowRun) -> str:
    index = min(run.position, len(run.plan) - 1)
    return phrase(str(run.plan[index]["title"])) if run.plan else phrase("not started")


def _waits_for(run: WorkflowRun) -> tuple[str, str]:
    waits: Mapping[str, Any] = run.waits_for or {}
    return str(waits.get("cause", "")), str(waits.get("detail", ""))
