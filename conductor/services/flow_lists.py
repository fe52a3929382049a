"""Workflows as a list with facets: a page of them, and how many of the newest each further choice would leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.db.models.fields.json import KT

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.identity.models import Project
from conductor.journal.models import WorkflowRun
from conductor.services import flow_views, flows, run_states, usual_times
from conductor.services.values import Page, RunView
from conductor.transactions import database_now

FACETS = ("state", "flow", "cause", "project", "cell", "owner")
OPERATORS_FACETS = frozenset({"project", "cell", "owner"})
WAITING = (RunState.QUEUED, RunState.WAITING)
API = "api"  # what the API database is called among the cells
# Counting the newest costs the same whatever the history holds; what is older is found by paging.
MOST_COUNTED = 2000

Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class ListQuery:
    """Which workflows; what is empty does not narrow. `chosen` are the values picked of each facet.

    `is_slow`: those that take, or took, longer than nineteen of twenty of their kind.
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
class Found:
    """A page, newest first; of each facet the counts, as if that one were not narrowed. `counted` is what of."""

    page: Page[RunView]
    facets: Mapping[str, Mapping[str, int]]
    counted: int
    is_all_counted: bool
    project_names: Mapping[str, str]


def search(context: RequestContext, query: ListQuery) -> Found:
    """A page of workflows. Raises Invalid for a marker that names none."""
    base = _base(context, query)
    narrow = base & _chosen(query.chosen)
    later = flows.before_marker(context, query.marker) if query.marker else Q()
    cells = query.chosen.get("cell", ())
    aliases = journal_aliases()

    def ask(alias: str) -> tuple[list[WorkflowRun], list[tuple[str, ...]]]:
        rows = WorkflowRun.objects.using(alias)
        is_wanted = not cells or _cell(alias) in cells
        page = list(flows.standing(rows.filter(narrow, later))[: query.limit + 1]) if is_wanted else []
        return page, _facts(alias, flows.standing(rows.filter(base)))

    found = scatter_gather(ask, aliases)
    placed = [(alias, run) for alias, (runs, _) in found.answers.items() for run in runs]
    placed.sort(key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [flow_views.brief(context, alias, run) for alias, run in placed[: query.limit]]
    facts = [row for _, rows in found.answers.values() for row in rows]
    names = FACETS if context.is_admin else tuple(name for name in FACETS if name not in OPERATORS_FACETS)
    facets = {name: _counts(facts, name, query.chosen) for name in names}
    return Found(
        page=Page(shown, has_more=len(placed) > query.limit, missing_cells=found.failures),
        facets=facets,
        counted=len(facts),
        is_all_counted=all(len(rows) < MOST_COUNTED for _, rows in found.answers.values()),
        project_names=project_names(context, {run.project_id for run in shown} | set(facets.get("project", ()))),
    )


def _base(context: RequestContext, query: ListQuery) -> Q:
    wanted = flows.scope(context, only_own_project=not query.all_projects)
    if query.states:
        wanted &= run_states.among(query.states)
    if query.user_id:
        wanted &= Q(user_id=query.user_id)
    if query.since is not None:
        wanted &= Q(created_at__gte=query.since)
    return wanted & _slow() if query.is_slow else wanted


def _slow() -> Q:
    wanted = Q(pk__in=[])
    for flow, usual in usual_times.of_flows().items():
        ended = Q(finished_at__gt=F("created_at") + timedelta(seconds=usual.p95))
        goes_on = Q(state__in=LIVE_RUN_STATES, created_at__lt=database_now(-usual.p95))
        wanted |= Q(flow=flow) & (ended | goes_on)
    return wanted


def _chosen(chosen: Values) -> Q:
    wanted = Q()
    for name, column in COLUMNS.items():
        if chosen.get(name):
            wanted &= Q(**{f"{column}__in": chosen[name]})
    if chosen.get("state"):
        wanted &= run_states.among(chosen["state"])
    return wanted & run_states.among(WAITING) if chosen.get("cause") else wanted


COLUMNS = {"flow": "flow", "project": "project_id", "owner": "owner", "cause": "waits_for__cause"}


def _cell(alias: str) -> str:
    return API if alias == API_ALIAS else alias


def _facts(alias: str, runs: flow_views.Runs) -> list[tuple[str, ...]]:
    """Of the newest runs the value of each facet, in the order of FACETS."""
    known = runs.annotate(cause=KT("waits_for__cause"), told=run_states.TOLD)
    rows = known.values_list("told", "flow", "cause", "project_id", "owner")
    return [
        (state, flow, (cause or "") if state in WAITING else "", project_id, _cell(alias), owner or "")
        for state, flow, cause, project_id, owner in rows[:MOST_COUNTED]
    ]


def _counts(facts: Iterable[tuple[str, ...]], name: str, chosen: Values) -> Mapping[str, int]:
    """How many have each value among those that all other choices leave; what is chosen is there even with none."""
    place = FACETS.index(name)
    others = [(FACETS.index(other), set(values)) for other, values in chosen.items() if values and other != name]
    counted = Counter(row[place] for row in facts if all(row[at] in values for at, values in others))
    counted.update(dict.fromkeys(chosen.get(name, ()), 0))
    del counted[""]
    return dict(sorted(counted.items(), key=lambda one: (-one[1], one[0])))


def project_names(context: RequestContext, project_ids: Iterable[str]) -> Mapping[str, str]:
    """By id, for administrators, who see more than one project."""
    if not context.is_admin:
        return {}
    return dict(Project.objects.filter(pk__in=list(project_ids)).values_list("pk", "name"))
