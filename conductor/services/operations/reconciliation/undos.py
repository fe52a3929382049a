"""Failed rollbacks whose only obstacle was an unresponsive host, and that can continue now."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.db import connections

from conductor import events
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import NovellaError, is_cancel
from conductor.core.states import RunState
from conductor.db.transactions import write_tx
from conductor.journal import statements
from conductor.journal.models import WorkflowRun
from conductor.services.operations.reconciliation import journal_facts
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind
from conductor.services.operations.reconciliation.journal_facts import RunFact
from conductor.services.workflows import interventions

log = logging.getLogger(__name__)

DETACHING_FLOWS = ("detach_volume", "detach_interface")
LET_GO = "The host has let go of what it may still have had."


def _held_up(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for alias, journal in facts.journals.items():
        for run in journal.held_up:
            if run.instance_uuid in facts.alive or facts.is_dead(run.instance_uuid):
                yield Discrepancy(
                    subject=f"workflow:{run.uuid}",
                    detail=f"Workflow {run.uuid} ({run.flow}) left a rollback to its host; no command is deferred.",
                    cell="" if alias == API_ALIAS else alias,
                    instance_uuid=run.instance_uuid,
                    touches=(instance_resource(run.instance_uuid), *run.resources),
                    data=(alias, run),
                )


def go_on_after(alias: str, run_uuid: str) -> None:
    """Resume the rollback of a run after its host has executed a deferred command. `go_on_all` resumes the rest
    later.
    """
    row = statements.RUNS_BY_UUID.find(connections[alias], run_uuid)
    if row is not None and row.state == RunState.FAILED_NOT_CLEAN:  # rarely
        go_on_all(alias, uuid=run_uuid)


def go_on_all(alias: str, **which: Any) -> int:
    """Resume rollbacks in a cell that wait for no host any more, or those with these field values. Return how many.

    It is repeated until all is done: the last answer of a host may come before the run has ended, its conductor may die
    after the answer, and another workflow may have the locks.
    """
    resumed = 0
    for run in journal_facts.held_up(alias, **which):
        instances = Instance.objects.using(alias).filter(uuid=run.instance_uuid)
        is_alive = instances.alive().exists()
        if not is_alive and not instances.exists():  # the instance is in another cell, or is unknown here
            continue
        try:
            _finish(alias, run, is_dead=not is_alive)
        except NovellaError as error:
            log.debug("undo goes on later: run=%s %s", run.uuid, error.message)
        else:
            resumed += 1
    return resumed


def _finish(alias: str, run: RunFact, *, is_dead: bool) -> str:
    """Resume the rollback, or mark the run as clean where another workflow has released its resources since."""
    if is_dead:
        return _mark_as_clean(alias, run.uuid, "Its server is gone, and gave back what was left.")
    if _is_released_since(alias, run):
        return _mark_as_clean(alias, run.uuid, "Another workflow gave back what was left.")
    interventions.finish_undo(alias, run.uuid, LET_GO)
    return "Its undo goes on."


def _is_released_since(alias: str, run: RunFact) -> bool:
    """Whether a later workflow has detached the volume or port."""
    own = set(run.resources) - {f"instance:{run.instance_uuid}"}
    runs = WorkflowRun.objects.using(alias).filter(
        instance_uuid=run.instance_uuid, flow__in=DETACHING_FLOWS, state=RunState.DONE
    )
    later = runs.filter(pk__gt=WorkflowRun.objects.using(alias).filter(uuid=run.uuid).values("pk"))
    return any(own & set(resources or ()) for resources in later.values_list("resources", flat=True))


def _go_on(facts: ReconciliationFacts, found: Discrepancy) -> str:
    alias, run = found.data
    return _finish(alias, run, is_dead=facts.is_dead(run.instance_uuid))


def _mark_as_clean(alias: str, run_uuid: str, note: str) -> str:
    with write_tx(alias):
        rows = WorkflowRun.objects.using(alias).filter(uuid=run_uuid, state=RunState.FAILED_NOT_CLEAN)
        row = rows.select_for_update().first()
        if row is None:
            return ""
        state = RunState.CANCELLED if is_cancel(row.error) else RunState.FAILED_UNDONE
        rows.update(state=state, uncompensated=[])
        events.append(alias, events.about_run(row), "run.cleaned", {"state": state, "left": row.uncompensated})
    return note


KINDS = (
    DiscrepancyKind(
        "undo_held_up_by_host", "Rollback delayed by an unresponsive host", _held_up, _go_on, grace_seconds=0.0
    ),
)
