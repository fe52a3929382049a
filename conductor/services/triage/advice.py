"""What to do first about a workflow: the first intervention of a short list that its rules allow now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, NotFound
from conductor.core.phrases import phrase
from conductor.services import flow_actions
from conductor.services.triage.runs import NEEDS_OPERATOR, NOT_CLEAN, NOT_TAKEN_UP, OWNER_SILENT, SLOW
from conductor.services.triage.values import LIKELY, PERHAPS, SURE, Advice, TriageItem

# Of each kind the interventions in the order in which they are tried, each with how sure it is that it helps.
TRIED: Mapping[str, tuple[tuple[str, str], ...]] = {
    NOT_CLEAN: (("undo", LIKELY),),
    NEEDS_OPERATOR: (("resume", LIKELY), ("force", PERHAPS)),
    OWNER_SILENT: (("take-over", SURE),),
    NOT_TAKEN_UP: (("resume", PERHAPS),),
    SLOW: (("take-over", SURE), ("reschedule", PERHAPS), ("resume", PERHAPS)),
}
NOTHING: Mapping[str, str] = {
    NOT_CLEAN: phrase("Its undo cannot be run again. See on its page what is left, and give that back by hand."),
    NOT_TAKEN_UP: phrase("See whether a conductor of that queue runs: the cells' page says which are heard."),
    SLOW: phrase("Nothing would make it faster now. Look at what it waits for."),
}

NONE_NOW = phrase("No intervention is allowed now.")


def advised(context: RequestContext, item: TriageItem) -> TriageItem:
    """The line with what to do first; a line that is about no workflow has its advice already."""
    if not item.run_uuid:
        return item
    try:
        panel = flow_actions.panel(context, item.run_uuid)
    except (NotFound, CellUnavailable) as error:
        return replace(item, no_advice=error.message)
    enabled = {one.id: one for one in panel.actions if one.enabled}
    for name, confidence in TRIED.get(item.kind, ()):
        if name in enabled:
            one = enabled[name]
            is_at_once = one.needs == ("reason",)
            advice = Advice(one.id, one.title, one.does, confidence, is_at_once, one.is_danger, panel.revision)
            return replace(item, advice=advice)
    return replace(item, no_advice=NOTHING.get(item.kind, NONE_NOW))
