"""What needs an operator now, the most harmful first: with the first cause, whom it hurts, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from conductor.api_db.models import Finding
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.services import flow_lists, host_deeds, interventions
from conductor.services.interventions import Asked
from conductor.services.reconciliation import reconciler
from conductor.services.reconciliation.reconciler import Outcome
from conductor.services.triage import hosts, leaks, quota_questions, runs, snoozes
from conductor.services.triage.advice import advised
from conductor.services.triage.values import LEVELS, Advice, SnoozeView, Triage, TriageItem
from conductor.transactions import write_tx

__all__ = [
    "LEVELS",
    "Advice",
    "SnoozeView",
    "Triage",
    "TriageItem",
    "apply",
    "count",
    "snooze",
    "survey",
    "wake",
]

USUAL_LIMIT = 30


def survey(context: RequestContext, *, is_snoozed: bool = False, limit: int = USUAL_LIMIT, marker: str = "") -> Triage:
    """A page of what needs an operator; with `is_snoozed` of what is put off instead.

    `marker` is the key of the last line of the page before. Raises Forbidden for others than operators, Invalid for a
    marker that is no line's.
    """
    everything, missing = _everything(context)
    wanted = [one for one in everything if one.is_snoozed == is_snoozed]
    first = 0
    if marker:
        places = [index for index, one in enumerate(wanted) if one.key == marker]
        if not places:
            raise Invalid(f"Marker {marker[:60]} could not be found: it may be mended meanwhile.", field="marker")
        first = places[0] + 1
    counts = Counter(one.level for one in wanted)
    return Triage(
        items=advised(context, wanted[first : first + limit]),
        counts={level: counts[level] for level in LEVELS},
        total=len(wanted),
        snoozed=sum(one.is_snoozed for one in everything),
        has_more=len(wanted) > first + limit,
        missing_cells=missing,
    )


def count(context: RequestContext) -> int:
    """How many lines there are that nobody has put off. Raises Forbidden for others than operators."""
    return sum(not one.is_snoozed for one in _everything(context)[0])


def snooze(context: RequestContext, key: str, *, reason: str, until: datetime) -> TriageItem:
    """Put a line off; it comes back by itself when the time is over or it gets worse.

    Raises NotFound for a key that names no line, Invalid for a missing reason or a moment that cannot be.
    """
    snoozes.begin(context, _find(context, key), reason=reason, until=until)
    return _find(context, key)


def wake(context: RequestContext, key: str) -> None:
    """Have a line back at once. Raises NotFound for one that is not put off."""
    _require_operator(context)
    snoozes.end(context, key)


def apply(context: RequestContext, key: str, action: str, *, reason: str, revision: str = "") -> str:
    """Do what a line advises; what was done, as a sentence. It is on record under the action's own name.

    Raises NotFound for a key that names no line any more, Conflict where something else is advised by now, and what
    the action itself raises.
    """
    (item,) = advised(context, [_find(context, key)])
    if item.advice is None or item.advice.action != action:
        now = f"“{item.advice.title}”" if item.advice else "nothing"
        raise Conflict(f"{item.name} has changed meanwhile: {now} is advised now.")
    if not item.advice.is_at_once:
        raise Invalid(f"{item.advice.title} asks for more than a reason: use its own form.", field="action")
    if item.run_uuid:
        interventions.intervene(context, item.run_uuid, action, Asked(reason=reason, revision=revision))
        return f"{item.advice.title}: requested for {item.name}."
    if item.host:
        return host_deeds.do(context, item.host, action, reason=reason)
    return _repair(context, item, reason)


def _repair(context: RequestContext, item: TriageItem, reason: str) -> str:
    try:
        snoozes.require_reason(reason)
        said = _repaired(item)
    except NovellaError as error:
        with write_tx(API_ALIAS):
            snoozes.record(context, "finding.repair", item, reason, error)
        raise
    with write_tx(API_ALIAS):
        snoozes.record(context, "finding.repair", item, reason, outcome=said)
    return said


def _repaired(item: TriageItem) -> str:
    row = Finding.objects.get(uuid=item.finding_uuid)
    judged = reconciler.repair(row.kind, row.subject)
    if judged is None:
        raise Conflict("It is not there any more, or a workflow is at work on it: look again.")
    if judged.outcome != Outcome.REPAIRED:
        raise Conflict(judged.said or "It may pass by itself: it is too young to be repaired.")
    return judged.said


def _everything(context: RequestContext) -> tuple[list[TriageItem], Mapping[str, str]]:
    """All lines in their order: the most harmful first, then what hurts most, then the oldest."""
    _require_operator(context)

    def names(project_ids: set[str]) -> Mapping[str, str]:
        return flow_lists.project_names(context, project_ids)

    of_runs, missing = runs.found(names)
    of_hosts, also_missing = hosts.found()
    items = snoozes.put_on([*of_runs, *of_hosts, *leaks.found(names), *quota_questions.found(names)])
    items.sort(key=lambda one: (one.level, -one.hurt, one.since, one.key))
    return items, {**missing, **also_missing}


def _find(context: RequestContext, key: str) -> TriageItem:
    for one in _everything(context)[0]:
        if one.key == key:
            return one
    raise NotFound(f"{key[:60]} needs nobody now.")


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("The triage is for operators.")
