"""What to do first about a workflow: the first intervention of a short list that its rules allow now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.phrases import phrase
from conductor.services import flow_actions
from conductor.services.flow_actions import Panel
from conductor.services.triage.runs import AGREEMENT, NEEDS_OPERATOR, NOT_CLEAN, NOT_TAKEN_UP, OWNER_SILENT, SLOW
from conductor.services.triage.values import LIKELY, PERHAPS, SURE, Advice, TriageItem

# Of each kind the interventions in the order in which they are tried, each with how sure it is that it helps.
TRIED: Mapping[str, tuple[tuple[str, str], ...]] = {
    NOT_CLEAN: (("undo", LIKELY),),
    NEEDS_OPERATOR: (("resume", LIKELY), ("force", PERHAPS)),
    OWNER_SILENT: (("take-over", SURE),),
    NOT_TAKEN_UP: (("resume", PERHAPS),),
    AGREEMENT: (("agree", PERHAPS),),
    SLOW: (("take-over", SURE), ("reschedule", PERHAPS), ("resume", PERHAPS)),
}
NOTHING: Mapping[str, str] = {
    NOT_CLEAN: phrase("Its undo cannot be run again. See on its page what is left, and give that back by hand."),
    NOT_TAKEN_UP: phrase("See whether a conductor of that queue runs: the cells' page says which are heard."),
    AGREEMENT: phrase("Another operator than who asked has to agree."),
    SLOW: phrase("Nothing would make it faster now. Look at what it waits for."),
}

NONE_NOW = phrase("No intervention is allowed now.")


def advised(context: RequestContext, items: Sequence[TriageItem]) -> list[TriageItem]:
    """The lines with what to do first; those that are about no workflow have their advice already."""
    where: dict[str, list[str]] = {}
    for item in items:
        if item.run_uuid:
            where.setdefault(item.cell or API_ALIAS, []).append(item.run_uuid)
    panels, silent = flow_actions.panels(context, where)
    return [_advised(item, panels.get(item.run_uuid), silent) if item.run_uuid else item for item in items]


def _advised(item: TriageItem, panel: Panel | None, silent: Collection[str]) -> TriageItem:
    if panel is None and (item.cell or API_ALIAS) in silent:
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
