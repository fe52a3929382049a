"""Failed rollbacks whose only obstacle was an unresponsive host, and that can continue now."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from django.db import connections

from conductor import events
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import system_context
from conductor.core.errors import NovellaError, is_cancel
from conductor.core.states import RunState
from conductor.db.transactions import write_tx
from conductor.journal import statements
from conductor.journal.models import WorkflowRun
from conductor.services.operations.reconciliation import journal_facts
from conductor.services.operations.reconciliation.facts import Facts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind
from conductor.services.workflows import interventions

log = logging.getLogger(__name__)

LET_GO = "The host has let go of what it may still have had."


def _held_up(facts: Facts) -> Iterator[Discrepancy]:
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
    """Resume the rollback of a run after its host has executed a deferred command.

    A run whose server was deleted, or that waits for another workflow's lock, is left to the next comparison.
    """
    row = statements.RUNS_BY_UUID.find(connections[alias], run_uuid)
    if row is None or row.state != RunState.FAILED_NOT_CLEAN:  # the typical case
        return
    for run in journal_facts.held_up(alias, uuid=run_uuid):
        if not Instance.objects.using(alias).alive().filter(uuid=run.instance_uuid).exists():
            continue
        try:
            interventions.intervene(
                system_context(), run.uuid, "undo", interventions.InterventionRequest(reason=LET_GO)
            )
        except NovellaError as error:
            log.info("undo goes on later: run=%s %s", run.uuid, error.message)


def _go_on(facts: Facts, found: Discrepancy) -> str:
    """Resume the rollback; for a deleted server mark the run as clean, as its delete has released everything."""
    alias, run = found.data
    if not facts.is_dead(run.instance_uuid):
        interventions.intervene(system_context(), run.uuid, "undo", interventions.InterventionRequest(reason=LET_GO))
        return "Its undo goes on."
    with write_tx(alias):
        rows = WorkflowRun.objects.using(alias).filter(uuid=run.uuid, state=RunState.FAILED_NOT_CLEAN)
        row = rows.select_for_update().first()
        if row is None:
            return ""
        state = RunState.CANCELLED if is_cancel(row.error) else RunState.FAILED_UNDONE
        rows.update(state=state, uncompensated=[])
        events.append(alias, events.about_run(row), "run.cleaned", {"state": state, "left": row.uncompensated})
    return "Its server is gone, and gave back what was left."


KINDS = (
    DiscrepancyKind(
        "undo_held_up_by_host", "Rollback delayed by an unresponsive host", _held_up, _go_on, grace_seconds=0.0
    ),
)
