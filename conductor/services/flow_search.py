"""Looking for workflows: narrowed by what is known of them, with the counts that each further choice would leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, F, Q

from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.journal.models import WorkflowRun
from conductor.services import flow_views, flows, run_states
from conductor.services.values import Page, RunView

FACETS = ("state", "flow", "action")
UUIDS = ("instance_uuid", "parent_uuid")


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Which workflows to list; what is empty does not narrow. `cell` is "api" for those of the API database."""

    state: tuple[str, ...] = ()
    flow: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    cell: str = ""
    project_id: str = ""
    user_id: str = ""
    request_id: str = ""
    instance_uuid: str = ""
    parent_uuid: str = ""
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    marker: str = ""


@dataclass(frozen=True)
class Found:
    """A page of workflows, newest first. `facets` counts by value, as if that one facet were not narrowed."""

    page: Page[RunView]
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def search(context: RequestContext, query: RunQuery) -> Found:
    """Workflows without their steps. Raises Invalid for a marker that names none."""
    narrow = _narrowed(context, query)
    later = flows.before_marker(context, query.marker) if query.marker else Q()
    aliases = [alias for alias in journal_aliases() if query.cell in ("", "api" if alias == API_ALIAS else alias)]

    def ask(alias: str) -> tuple[list[WorkflowRun], dict[str, Counter[str]]]:
        rows = WorkflowRun.objects.using(alias)
        page = list(flows.standing(rows.filter(narrow, *_chosen(query), later))[: query.limit + 1])
        return page, {facet: _counts(rows.filter(narrow, *_chosen(query, but=facet)), facet) for facet in FACETS}

    found = scatter_gather(ask, aliases)
    placed = [(alias, run) for alias, (runs, _) in found.answers.items() for run in runs]
    placed.sort(key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [flow_views.brief(context, alias, run) for alias, run in placed[: query.limit]]
    sums = {facet: sum((counts[facet] for _, counts in found.answers.values()), Counter[str]()) for facet in FACETS}
    facets = {facet: dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))) for facet, counts in sums.items()}
    return Found(Page(shown, has_more=len(placed) > query.limit, missing_cells=found.failures), facets)


def _narrowed(context: RequestContext, query: RunQuery) -> Q:
    wanted = flows.scope(context)
    for name in ("project_id", "user_id", "request_id"):
        if getattr(query, name):
            wanted &= Q(**{name: getattr(query, name)})
    for name in UUIDS:
        if getattr(query, name):
            known = uuid_or_none(getattr(query, name))
            wanted &= Q(**{name: known}) if known else Q(pk__in=[])
    if query.since is not None:
        wanted &= Q(created_at__gte=query.since)
    if query.until is not None:
        wanted &= Q(created_at__lt=query.until)
    return wanted


def _chosen(query: RunQuery, *, but: str = "") -> list[Q]:
    """What narrows, but for one facet."""
    chosen = {facet: getattr(query, facet) for facet in FACETS if facet != but and getattr(query, facet)}
    states = [run_states.among(chosen.pop("state"))] if "state" in chosen else []
    return [*states, *(Q(**{f"{facet}__in": values}) for facet, values in chosen.items())]


def _counts(runs: flow_views.Runs, facet: str) -> Counter[str]:
    counted = run_states.TOLD if facet == "state" else F(facet)
    rows = flows.standing(runs).order_by().annotate(value=counted).values_list("value").annotate(count=Count("pk"))
    return Counter({str(value): count for value, count in rows})
