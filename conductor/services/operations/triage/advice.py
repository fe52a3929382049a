"""Advice on workflows: the first intervention of a short list that is allowed now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.phrases import phrase
from conductor.services.operations.triage.runs import (
    APPROVAL,
    NEEDS_OPERATOR,
    NOT_CLEAN,
    NOT_TAKEN_UP,
    OWNER_UNRESPONSIVE,
    SLOW,
)
from conductor.services.operations.triage.values import LIKELY, PERHAPS, SURE, Advice, TriageItem
from conductor.services.workflows import actions
from conductor.services.workflows.actions import ActionPanel

# For each kind the interventions in the order in which they are tried, with the confidence that each helps.
TRIED: Mapping[str, tuple[tuple[str, str], ...]] = {
    NOT_CLEAN: (("undo", LIKELY),),
    NEEDS_OPERATOR: (("resume", LIKELY), ("force", PERHAPS)),
    OWNER_UNRESPONSIVE: (("take-over", SURE),),
    NOT_TAKEN_UP: (("resume", PERHAPS),),
    APPROVAL: (("agree", PERHAPS),),
    SLOW: (("take-over", SURE), ("reschedule", PERHAPS), ("resume", PERHAPS)),
}
NOTHING: Mapping[str, str] = {
    NOT_CLEAN: phrase(
        "The rollback can't run again. Check the workflow for remaining resources and release them manually."
    ),
    NOT_TAKEN_UP: phrase("Check that a conductor for this queue is running. See Cells for running conductors."),
    APPROVAL: phrase("An operator other than the requester must approve."),
    SLOW: phrase("No action speeds this up. Check what the workflow waits for."),
}

NONE_NOW = phrase("No action is available now.")


def advised(context: RequestContext, items: Sequence[TriageItem]) -> list[TriageItem]:
    """Return the items with advice; those not about a workflow have it already."""
    where: dict[str, list[str]] = {}
    for item in items:
        if item.run_uuid:
            where.setdefault(item.cell or API_ALIAS, []).append(item.run_uuid)
    panels, down = actions.panels(context, where)
    return [_advised(item, panels.get(item.run_uuid), down) if item.run_uuid else item for item in items]


def _advised(item: TriageItem, panel: ActionPanel | None, down: Collection[str]) -> TriageItem:
    if panel is None and (item.cell or API_ALIAS) in down:
        return replace(item, no_advice=f"The workflow may be in a cell that does not answer: {item.cell}.")
    if panel is None:
        return replace(item, no_advice=f"Workflow {item.run_uuid} could not be found.")
    enabled = {one.id: one for one in panel.actions if one.enabled}
    for name, confidence in TRIED.get(item.kind, ()):
        if name in enabled:
            one = enabled[name]
            is_at_once = one.needs == ("reason",)
            advice = Advice(one.id, one.title, one.does, confidence, is_at_once, one.is_danger, panel.revision)
            return replace(item, advice=advice)
    return replace(item, no_advice=NOTHING.get(item.kind, NONE_NOW))
