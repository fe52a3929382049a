"""Workflows by who began them, and by a word: what the bell, the tray and the search of the portal show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.contrib.auth import get_user_model
from django.db.models import Q

from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES
from conductor.journal.models import WorkflowRun
from conductor.services import flow_views, flows
from conductor.services.values import RunView
from conductor.transactions import write_tx

NEWS_DAYS = 7
MOST_SHOWN = 12
MOST_HIDDEN = 100
CLEARED, HIDDEN = "bell_cleared_at", "bell_hidden"


@dataclass(frozen=True)
class OwnFlows:
    """What somebody has under way in a project, and what ended since they cleared it; newest first, with totals."""

    running: list[RunView]
    running_count: int
    ended: list[RunView]
    ended_count: int
    missing_cells: Mapping[str, str] = field(default_factory=dict)


def of(context: RequestContext) -> OwnFlows:
    """The asker's workflows in the project in use."""
    since, hidden = _cleared(context.user_id)
    mine = Q(user_id=context.user_id, project_id=context.project_id)
    running = mine & Q(state__in=tuple(LIVE_RUN_STATES))
    ended = mine & Q(state__in=tuple(FINAL_RUN_STATES), finished_at__gt=since) & ~Q(uuid__in=hidden)

    def ask(alias: str) -> list[tuple[list[WorkflowRun], int]]:
        rows = WorkflowRun.objects.using(alias)
        both = (flows.standing(rows.filter(wanted)) for wanted in (running, ended))
        return [(list(found[:MOST_SHOWN]), found.count()) for found in both]

    found = scatter_gather(ask, journal_aliases())
    lists = [_newest(context, {alias: parts[which][0] for alias, parts in found.answers.items()}) for which in (0, 1)]
    counts = [sum(parts[which][1] for parts in found.answers.values()) for which in (0, 1)]
    by_end = sorted(lists[1], key=lambda run: run.finished_at or run.created_at, reverse=True)
    return OwnFlows(lists[0], counts[0], by_end, counts[1], found.failures)


def clear(context: RequestContext, run_uuid: str = "") -> None:
    """Take one ended workflow out of the bell, or all of them. What is unknown is gone already."""
    people = get_user_model().objects
    with write_tx():
        kept = people.select_for_update().filter(pk=context.user_id).values_list("preferences", flat=True).first() or {}
        if not run_uuid:
            changed = {CLEARED: datetime.now(UTC).isoformat(), HIDDEN: []}
        else:
            known = uuid_or_none(run_uuid)
            others = [one for one in kept.get(HIDDEN, ()) if one != str(known)]
            changed = {HIDDEN: [*others, str(known)][-MOST_HIDDEN:] if known else others}
        people.filter(pk=context.user_id).update(preferences={**kept, **changed})


def named(context: RequestContext, text: str, limit: int) -> list[RunView]:
    """The newest workflows that the asker may see whose server is named so, or whose id begins so."""
    wanted = Q(instance_name__icontains=text)
    known = uuid_or_none(text)
    if known:
        wanted |= Q(uuid=known) | Q(instance_uuid=known)

    def ask(alias: str) -> list[WorkflowRun]:
        rows = WorkflowRun.objects.using(alias).filter(flows.scope(context, only_own_project=True) & wanted)
        return list(flows.standing(rows)[:limit])

    return _newest(context, scatter_gather(ask, journal_aliases()).answers)[:limit]


def _newest(context: RequestContext, found: Mapping[str, Iterable[WorkflowRun]]) -> list[RunView]:
    views = [flow_views.brief(context, alias, run) for alias, runs in found.items() for run in runs]
    return sorted(views, key=lambda run: (run.created_at, run.uuid), reverse=True)[:MOST_SHOWN]


def _cleared(user_id: str) -> tuple[datetime, list[str]]:
    kept = get_user_model().objects.filter(pk=user_id).values_list("preferences", flat=True).first() or {}
    oldest = datetime.now(UTC) - timedelta(days=NEWS_DAYS)
    cleared = kept.get(CLEARED)
    since = max(oldest, datetime.fromisoformat(cleared)) if cleared else oldest
    return since, [one for one in kept.get(HIDDEN, ()) if uuid_or_none(one)]
