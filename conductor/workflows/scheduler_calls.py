"""Calls of a step to schedulers that are services of their own.

The run suspends until the reply. Then its step is executed again and finds the stored decision. If a scheduler dies, or
does not reply within `NOVELLA_SCHEDULER_SECONDS`, another one is called. The late decision of the first changes
nothing: the run was claimed again, and the claims of a decision are fenced by the run's token.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections

from conductor.cells import schedulers
from conductor.cells.lookup import journal_aliases, queue_of
from conductor.cells.schedulers import Scheduler
from conductor.core import errors
from conductor.core.errors import NovellaError, Unavailable
from conductor.core.messages import message, text_of
from conductor.core.states import RunState, WaitCause
from conductor.db.transactions import database_now, database_time, each_in_turn, write_tx
from conductor.journal import statements
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.rpc import broker
from conductor.rpc.messages import DestinationsRequested, DestinationsSelected, SchedulerReported
from conductor.scheduler import decision_log, manager
from conductor.scheduler.manager import DestinationRequest, Selections
from conductor.workflows.engine import executor
from conductor.workflows.flow import RemoteCall, Suspend

log = logging.getLogger(__name__)

NONE_SECONDS = 1.0  # between two checks for a scheduler while there is none
ASKED = "asked"  # in the progress of a step's record: the schedulers that were called, in order


class NoScheduler(Unavailable):
    """No scheduler answers."""


class SchedulerFailed(NovellaError):
    """The scheduler failed."""


def select_for_many(requests: Sequence[DestinationRequest]) -> list[Selections | Exception]:
    """Answer requests that are decided, and call schedulers for the rest. Their answer is a `Suspend` until they
    reply.
    """
    rows = decision_log.find_all(request.step_key for request in requests)
    known = schedulers.all_known() if len(rows) < len(requests) else []
    random.shuffle(known)  # shuffled once, so that requests of one call go to one scheduler and are decided together

    def answer(request: DestinationRequest) -> Selections:
        row = rows.get(request.step_key)
        return _called(request, known) if row is None else manager.answer_of(row)

    return each_in_turn(requests, answer)


def _called(request: DestinationRequest, known: Sequence[Scheduler]) -> Selections:
    """Call a scheduler. Raises Suspend, the error of its reply, or NoScheduler once all deadlines have passed."""
    caller = request.caller
    assert caller is not None, "only steps call schedulers of their own"
    record = statements.RECORDS_BY_KEY.find(connections[caller.alias], request.step_key)
    if record is None:
        raise NovellaError("The step has no record.")
    if record.answer is not None:
        raise _error(record.answer)
    requested: list[str] = (record.progress or {}).get(ASKED, [])
    waited = (database_time(caller.alias) - record.started_at).total_seconds()
    if waited >= settings.NOVELLA_SCHEDULER_CALLS * settings.NOVELLA_SCHEDULER_SECONDS:
        raise NoScheduler(_why_none(requested, known))
    chosen = _next(known, requested)
    if requested:
        log.warning("scheduler did not reply: name=%s run=%s next=%s", requested[-1], request.run_uuid, chosen)
    if chosen is None:
        raise Suspend(WaitCause.SCHEDULER, "", NONE_SECONDS)
    body = DestinationsRequested(
        scheduler=chosen,
        cell=caller.alias,
        run_id=caller.run.pk,
        run_uuid=request.run_uuid,
        step_key=request.step_key,
        fencing_token=caller.token,
        instance_uuids=list(request.instance_uuids),
        spec=request.spec.to_json(),
    )
    call = RemoteCall(partial(broker.call_scheduler, body), {ASKED: [*requested, chosen]})
    raise Suspend(WaitCause.SCHEDULER, chosen, settings.NOVELLA_SCHEDULER_SECONDS, call)


def _next(known: Sequence[Scheduler], requested: Sequence[str]) -> str | None:
    """Return the scheduler to call: the one that this step called least; among these not a slow one; then the first."""
    alive = [one for one in known if one.is_alive]
    if not alive:
        return None
    return min(alive, key=lambda one: (requested.count(one.name), one.is_slow)).name


def _why_none(requested: Sequence[str], known: Sequence[Scheduler]) -> str:
    if not requested:
        return message("scheduling.no_scheduler")
    names = ", ".join(sorted(set(requested)))
    dead = ", ".join(sorted(one.name for one in known if one.name in requested and not one.is_alive))
    if not dead:
        return message("scheduling.schedulers_slow", names=names)
    return message("scheduling.schedulers_dead", names=names, dead=dead)


def _error(reply: Mapping[str, Any]) -> NovellaError:
    """Return the error of a scheduler's reply, as an object of the class that it would have in this process."""
    kind = getattr(errors, str(reply["class"]), None)
    if isinstance(kind, type) and issubclass(kind, NovellaError):
        return kind(text_of(reply), **reply.get("details", {}))
    return SchedulerFailed(message("scheduling.failed", name=reply["scheduler"], kind=str(reply["class"])))


# -- replies


def take_replies(cell: str, message: DestinationsSelected) -> None:
    """Store the errors of a scheduler's replies, and execute the runs that wait for these calls."""
    for run_uuid in _woken(cell, message):
        executor.run(cell, run_uuid)


def _woken(alias: str, message: DestinationsSelected) -> list[UUID]:
    """Make the runs due that still wait for these calls, and return them. Late replies are dropped."""
    replies = {UUID(str(reply["run_uuid"])): reply for reply in message.replies}
    with write_tx(alias):
        waiting = _waiting(alias).filter(uuid__in=replies).select_for_update().order_by("pk")
        due = [run for run in waiting if run.fencing_token == replies[run.uuid]["fencing_token"]]
        for run in due:
            reply = replies[run.uuid]
            if reply.get("error"):
                answer = {**reply["error"], "scheduler": message.scheduler}
                StepRecord.objects.using(alias).filter(run=run, step_key=reply["step_key"]).update(answer=answer)
        WorkflowRun.objects.using(alias).filter(pk__in=[run.pk for run in due]).update(wake_at=database_now())
    return [run.uuid for run in due]


def record_report(cell: str, message: SchedulerReported) -> None:
    """Record that a scheduler is alive, with its queue and its speed."""
    schedulers.record(message.scheduler, message.service_version, message.figures)


def note_end(life: str) -> None:
    """Make runs that wait for a scheduler that has just died call another one."""
    name = schedulers.note_end(life)
    if not name:
        return
    log.warning("a scheduler ended: name=%s", name)
    for alias in journal_aliases():
        with write_tx(alias):
            runs = list(_waiting(alias).filter(waits_for__detail=name).values_list("pk", "uuid"))
            WorkflowRun.objects.using(alias).filter(pk__in=[pk for pk, _ in runs]).update(wake_at=database_now())
        for _, run_uuid in runs:
            broker.notify_conductor(queue_of(alias), {"alias": alias, "run_uuid": str(run_uuid)})


def _waiting(alias: str) -> Any:
    waits = {"state": RunState.WAITING, "owner__isnull": True, "waits_for__cause": WaitCause.SCHEDULER}
    return WorkflowRun.objects.using(alias).filter(**waits)
