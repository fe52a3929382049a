"""Workflows that are not clean only because a host was silent, and that nothing is in the way of any more."""

from __future__ import annotations

from collections.abc import Iterator

from conductor import events
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import system_context
from conductor.core.errors import is_cancel
from conductor.core.states import RunState
from conductor.journal.models import WorkflowRun
from conductor.services import interventions
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import write_tx

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
