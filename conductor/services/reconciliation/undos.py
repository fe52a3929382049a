"""Workflows that are not clean only because a host was silent, and that nothing is in the way of any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from conductor import events
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import system_context
from conductor.core.errors import NovellaError, is_cancel
from conductor.core.states import RunState
from conductor.journal.models import WorkflowRun
from conductor.services import interventions
from conductor.services.reconciliation import journal_facts
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import write_tx

log = logging.getLogger(__name__)

LET_GO = "The host has let go of what it may still have had."


def _held_up(facts: Facts) -> Iterator[Found]:
    for alias, journal in facts.journals.items():
        for run in journal.held_up:
            if run.instance_uuid in facts.alive or facts.is_dead(run.instance_uuid):
                yield Found(
                    subject=f"workflow:{run.uuid}",
                    detail=f"Workflow {run.uuid} ({run.flow}) left something to a silent host, which owes nothing now.",
                    cell="" if alias == API_ALIAS else alias,
                    instance_uuid=run.instance_uuid,
                    touches=(instance_resource(run.instance_uuid), *run.resources),
                    data=(alias, run),
                )


def go_on_after(alias: str, run_uuid: str) -> None:
    """Have the undo of a run go on whose host has just done what it had to; what is in the way now comes later.

    A run whose server was deleted, and one that another workflow keeps waiting, are left to the next comparison.
    """
    for run in journal_facts.held_up(alias, uuid=run_uuid):
        if not Instance.objects.using(alias).alive().filter(uuid=run.instance_uuid).exists():
            continue
        try:
            interventions.intervene(system_context(), run.uuid, "undo", interventions.Asked(reason=LET_GO))
        except NovellaError as error:
            log.info("undo goes on later: run=%s %s", run.uuid, error.message)


def _go_on(facts: Facts, found: Found) -> str:
    """What a deleted server had was given back by its delete: there is nothing left to undo."""
    alias, run = found.data
    if not facts.is_dead(run.instance_uuid):
        interventions.intervene(system_context(), run.uuid, "undo", interventions.Asked(reason=LET_GO))
        return "Its undo goes on."
    with write_tx(alias):
        rows = WorkflowRun.objects.using(alias).filter(uuid=run.uuid, state=RunState.FAILED_NOT_CLEAN)
        row = rows.select_for_update().first()
        if row is None:
            return ""
        state = RunState.CANCELLED if is_cancel(row.error) else RunState.FAILED_UNDONE
        rows.update(state=state, leftovers=[])
        events.append(alias, events.about_run(row), "run.cleaned", {"state": state, "left": row.leftovers})
    return "Its server is gone, and gave back what was left."


KINDS = (Kind("undo_held_up_by_host", "Undo that a silent host held up", _held_up, _go_on, grace_seconds=0.0),)
