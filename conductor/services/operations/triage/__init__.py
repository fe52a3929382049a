"""Triage: problems that need an operator now, the most harmful first, with their cause, effect and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from conductor.api_db.models import Finding
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.core.phrases import phrase
from conductor.db.transactions import write_tx
from conductor.services.fleet import host_actions
from conductor.services.operations.reconciliation import reconciler
from conductor.services.operations.reconciliation.reconciler import RepairOutcome
from conductor.services.operations.triage import hosts, leaks, quota_questions, runs, snoozes
from conductor.services.operations.triage.advice import advised
from conductor.services.operations.triage.values import LEVELS, Advice, SnoozeView, Triage, TriageItem
from conductor.services.workflows import interventions, lists
from conductor.services.workflows.interventions import InterventionRequest

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

DEFAULT_LIMIT = 30


def survey(
    context: RequestContext, *, is_snoozed: bool = False, limit: int = DEFAULT_LIMIT, marker: str = ""
) -> Triage:
    """Return a page of problems that need an operator; with `is_snoozed` of snoozed ones instead.

    `marker` is the key of the last item of the page before. Raises Forbidden for callers other than operators, Invalid
    for an unknown marker.
    """
    everything, missing = _everything(context)
    wanted = [one for one in everything if one.is_snoozed == is_snoozed]
    first = 0
    if marker:
        places = [index for index, one in enumerate(wanted) if one.key == marker]
        if not places:
            raise Invalid(
                phrase("Marker %(marker)s could not be found. Its problem may be solved.", marker=marker[:60]),
                field="marker",
            )
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
    """Return the number of items that are not snoozed. Raises Forbidden for callers other than operators."""
    return sum(not one.is_snoozed for one in _everything(context)[0])


def snooze(context: RequestContext, key: str, *, reason: str, until: datetime) -> TriageItem:
    """Snooze an item. It returns by itself when the time is over or it gets worse.

    Raises NotFound for an unknown key, Invalid for a missing reason or an impossible time.
    """
    snoozes.begin(context, _find(context, key), reason=reason, until=until)
    return _find(context, key)


def wake(context: RequestContext, key: str) -> None:
    """End an item's snooze at once. Raises NotFound for one that is not snoozed."""
    _require_operator(context)
    snoozes.end(context, key)


def apply(context: RequestContext, key: str, action: str, *, reason: str, revision: str = "") -> str:
    """Execute the action that an item advises, and return a sentence on the result. It is audited as that action.

    Errors of the action itself pass through.

    Raises:
        NotFound: the item is gone.
        Conflict: another action is advised by now.
    """
    (item,) = advised(context, [_find(context, key)])
    if item.advice is None or item.advice.action != action:
        if item.advice is None:
            raise Conflict(phrase("%(name)s has changed since you opened the page. Look again.", name=item.name))
        raise Conflict(
            phrase(
                "%(name)s has changed since you opened the page. The recommended action is now “%(action)s”.",
                name=item.name,
                action=phrase(item.advice.title),
            )
        )
    if not item.advice.is_at_once:
        raise Invalid(
            phrase("“%(title)s” needs more than a reason. Use its own form.", title=phrase(item.advice.title)),
            field="action",
        )
    if item.run_uuid:
        interventions.intervene(context, item.run_uuid, action, InterventionRequest(reason=reason, revision=revision))
        return phrase("%(action)s requested: %(name)s.", action=phrase(item.advice.title), name=item.name)
    if item.host:
        return host_actions.execute(context, item.host, action, reason=reason)
    return _repair(context, item, reason)


def _repair(context: RequestContext, item: TriageItem, reason: str) -> str:
    try:
        snoozes.require_reason(reason)
        note = _repaired(item)
    except NovellaError as error:
        with write_tx(API_ALIAS):
            snoozes.record(context, "finding.repair", item, reason, error)
        raise
    with write_tx(API_ALIAS):
        snoozes.record(context, "finding.repair", item, reason, outcome=note)
    return note


def _repaired(item: TriageItem) -> str:
    row = Finding.objects.get(uuid=item.finding_uuid)
    judged = reconciler.repair(row.kind, row.subject)
    if judged is None:
        raise Conflict(phrase("The problem no longer exists, or a workflow is changing the resource. Look again."))
    if judged.outcome != RepairOutcome.REPAIRED:
        raise Conflict(judged.note or "It may pass by itself: it is too young to be repaired.")
    return judged.note


def _everything(context: RequestContext) -> tuple[list[TriageItem], Mapping[str, str]]:
    """Return all items in order: the most harmful first, then those that affect most, then the oldest."""
    _require_operator(context)

    def names(project_ids: set[str]) -> Mapping[str, str]:
        return lists.project_names(context, project_ids)

    of_runs, missing = runs.found(names)
    of_hosts, also_missing = hosts.found()
    items = snoozes.put_on([*of_runs, *of_hosts, *leaks.found(names), *quota_questions.found(names)])
    items.sort(key=lambda one: (one.level, -one.hurt, one.since, one.key))
    return items, {**missing, **also_missing}


def _find(context: RequestContext, key: str) -> TriageItem:
    for one in _everything(context)[0]:
        if one.key == key:
            return one
    raise NotFound(phrase("%(key)s needs no attention now.", key=key[:60]))


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see the triage."))
