"""Lists of workflows with facets: a page, and the counts of the newest runs for each further choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.contrib.auth import get_user_model
from django.db.models import F, Q
from django.db.models.fields.json import KT

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState
from conductor.db.transactions import database_now, write_tx
from conductor.identity.models import Project
from conductor.journal.models import WorkflowRun
from conductor.services.workflows import duration_statistics, presenter, workflows
from conductor.services.workflows.types import RunView

FACETS = ("state", "flow", "cause", "project", "cell", "owner")
OPERATORS_FACETS = frozenset({"project", "cell", "owner"})
WAITING = (RunState.QUEUED, RunState.WAITING)
API = "api"  # the API database's name among the cells
# Counting the newest has a constant cost; older runs are found by paging.
MOST_COUNTED = 2000

Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class WorkflowListQuery:
    """Filters for workflows. Empty fields do not restrict the list. `chosen` are the selected values of each facet.

    `is_slow`: only workflows that took longer than nineteen of twenty of their kind, or have run for longer.
    """

    chosen: Values = field(default_factory=dict)
    states: tuple[str, ...] = ()
    user_id: str = ""
    since: datetime | None = None
    is_slow: bool = False
    all_projects: bool = False
    limit: int = 50
    marker: str = ""


@dataclass(frozen=True)
class WorkflowPage:
    """A page, newest first; and each facet's counts without its own filter. `counted` is the number of runs in them."""

    page: Page[RunView]
    facets: Mapping[str, Mapping[str, int]]
    counted: int
    is_all_counted: bool
    project_names: Mapping[str, str]


def search(context: RequestContext, query: WorkflowListQuery) -> WorkflowPage:
    """Return a page of workflows. Raises Invalid for an unknown marker."""
    base = _base(context, query)
    narrow = base & _chosen(query.chosen)
    later = workflows.before_marker(context, query.marker) if query.marker else Q()
    cells = query.chosen.get("cell", ())
    aliases = journal_aliases()

    def ask(alias: str) -> tuple[list[WorkflowRun], list[tuple[str, ...]]]:
        rows = WorkflowRun.objects.using(alias)
        is_wanted = not cells or _cell(alias) in cells
        page = list(workflows.standing(rows.filter(narrow, later))[: query.limit + 1]) if is_wanted else []
        return page, _facts(alias, workflows.standing(rows.filter(base)))

    found = scatter_gather(ask, aliases)
    placed = [(alias, run) for alias, (runs, _) in found.answers.items() for run in runs]
    placed.sort(key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [presenter.brief(context, alias, run) for alias, run in placed[: query.limit]]
    facts = [row for _, rows in found.answers.values() for row in rows]
    names = FACETS if context.is_admin else tuple(name for name in FACETS if name not in OPERATORS_FACETS)
    facets = {name: _counts(facts, name, query.chosen) for name in names}
    return WorkflowPage(
        page=Page(shown, has_more=len(placed) > query.limit, missing_cells=found.failures),
        facets=facets,
        counted=len(facts),
        is_all_counted=all(len(rows) < MOST_COUNTED for _, rows in found.answers.values()),
        project_names=project_names(context, {run.project_id for run in shown} | set(facets.get("project", ()))),
    )


def _base(context: RequestContext, query: WorkflowListQuery) -> Q:
    wanted = workflows.scope(context, only_own_project=not query.all_projects)
    if query.states:
        wanted &= presenter.among(query.states)
    if query.user_id:
        wanted &= Q(user_id=query.user_id)
    if query.since is not None:
        wanted &= Q(created_at__gte=query.since)
    return wanted & _slow() if query.is_slow else wanted


def _slow() -> Q:
    wanted = Q(pk__in=[])
    for flow, typical in duration_statistics.of_flows().items():
        ended = Q(finished_at__gt=F("created_at") + timedelta(seconds=typical.p95))
        goes_on = Q(state__in=LIVE_RUN_STATES, created_at__lt=database_now(-typical.p95))
        wanted |= Q(flow=flow) & (ended | goes_on)
    return wanted


def _chosen(chosen: Values) -> Q:
    wanted = Q()
    for name, column in COLUMNS.items():
        if chosen.get(name):
            wanted &= Q(**{f"{column}__in": chosen[name]})
    if chosen.get("state"):
        wanted &= presenter.among(chosen["state"])
    return wanted & presenter.among(WAITING) if chosen.get("cause") else wanted


COLUMNS = {"flow": "flow", "project": "project_id", "owner": "owner", "cause": "waits_for__cause"}


def _cell(alias: str) -> str:
    return API if alias == API_ALIAS else alias


def _facts(alias: str, runs: presenter.Runs) -> list[tuple[str, ...]]:
    """Return the facet values of the newest runs, in the order of FACETS."""
    known = runs.annotate(cause=KT("waits_for__cause"), shown_state=presenter.SHOWN_STATE)
    rows = known.values_list("shown_state", "flow", "cause", "project_id", "owner")
    return [
        (state, flow, (cause or "") if state in WAITING else "", project_id, _cell(alias), owner or "")
        for state, flow, cause, project_id, owner in rows[:MOST_COUNTED]
    ]


def _counts(facts: Iterable[tuple[str, ...]], name: str, chosen: Values) -> Mapping[str, int]:
    """Count each value among runs that match all other facets; selected values are included even with none."""
    place = FACETS.index(name)
    others = [(FACETS.index(other), set(values)) for other, values in chosen.items() if values and other != name]
    counted = Counter(row[place] for row in facts if all(row[at] in values for at, values in others))
    counted.update(dict.fromkeys(chosen.get(name, ()), 0))
    del counted[""]
    return dict(sorted(counted.items(), key=lambda one: (-one[1], one[0])))


def project_names(context: RequestContext, project_ids: Iterable[str]) -> Mapping[str, str]:
    """Return project names by id, for administrators, who see more than one project."""
    if not context.is_admin:
        return {}
    return dict(Project.objects.filter(pk__in=list(project_ids)).values_list("pk", "name"))


NEWS_DAYS = 7
MOST_SHOWN = 12
MOST_HIDDEN = 100
CLEARED, HIDDEN = "bell_cleared_at", "bell_hidden"


@dataclass(frozen=True)
class OwnFlows:
    """A user's workflows under way in a project, and those that ended since the user cleared them; newest first."""

    running: list[RunView]
    running_count: int
    ended: list[RunView]
    ended_count: int
    missing_cells: Mapping[str, str] = field(default_factory=dict)


def of(context: RequestContext) -> OwnFlows:
    """Return the caller's workflows in the current project."""
    since, hidden = _cleared(context.user_id)
    mine = Q(user_id=context.user_id, project_id=context.project_id)
    running = mine & Q(state__in=tuple(LIVE_RUN_STATES))
    ended = mine & Q(state__in=tuple(FINAL_RUN_STATES), finished_at__gt=since) & ~Q(uuid__in=hidden)

    def ask(alias: str) -> list[tuple[list[WorkflowRun], int]]:
        rows = WorkflowRun.objects.using(alias)
        both = (workflows.standing(rows.filter(wanted)) for wanted in (running, ended))
        return [(list(found[:MOST_SHOWN]), found.count()) for found in both]

    found = scatter_gather(ask, journal_aliases())
    lists = [_newest(context, {alias: parts[which][0] for alias, parts in found.answers.items()}) for which in (0, 1)]
    counts = [sum(parts[which][1] for parts in found.answers.values()) for which in (0, 1)]
    by_end = sorted(lists[1], key=lambda run: run.finished_at or run.created_at, reverse=True)
    return OwnFlows(lists[0], counts[0], by_end, counts[1], found.failures)


def clear(context: RequestContext, run_uuid: str = "") -> None:
    """Hide one ended workflow from the notices, or all; does nothing for an unknown one."""
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
    """Return the newest workflows that the caller may see, by a part of their server's name, or by uuid."""
    wanted = Q(instance_name__icontains=text)
    known = uuid_or_none(text)
    if known:
        wanted |= Q(uuid=known) | Q(instance_uuid=known)

    def ask(alias: str) -> list[WorkflowRun]:
        rows = WorkflowRun.objects.using(alias).filter(workflows.scope(context, only_own_project=True) & wanted)
        return list(workflows.standing(rows)[:limit])

    return _newest(context, scatter_gather(ask, journal_aliases()).answers)[:limit]


def _newest(context: RequestContext, found: Mapping[str, Iterable[WorkflowRun]]) -> list[RunView]:
    views = [presenter.brief(context, alias, run) for alias, runs in found.items() for run in runs]
    return sorted(views, key=lambda run: (run.created_at, run.uuid), reverse=True)[:MOST_SHOWN]


def _cleared(user_id: str) -> tuple[datetime, list[str]]:
    kept = get_user_model().objects.filter(pk=user_id).values_list("preferences", flat=True).first() or {}
    oldest = datetime.now(UTC) - timedelta(days=NEWS_DAYS)
    cleared = kept.get(CLEARED)
    since = max(oldest, datetime.fromisoformat(cleared)) if cleared else oldest
    return since, [one for one in kept.get(HIDDEN, ()) if uuid_or_none(one)]
