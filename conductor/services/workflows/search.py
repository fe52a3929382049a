"""Search for workflows with filters and facets, for the API."""

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
from conductor.core.page import Page
from conductor.journal.models import WorkflowRun
from conductor.services.workflows import presenter, workflows
from conductor.services.workflows.types import RunView

FACETS = ("state", "flow", "action")
UUIDS = ("instance_uuid", "parent_uuid")


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Filters for workflows; empty fields do not narrow. `cell` is "api" for those of the API database."""

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
class RunPage:
    """A page of workflows, newest first. `facets` counts by value, without that facet's own filter."""

    page: Page[RunView]
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def search(context: RequestContext, query: RunQuery) -> RunPage:
    """Return workflows without their steps. Raises Invalid for an unknown marker."""
    narrow = _narrowed(context, query)
    later = workflows.before_marker(context, query.marker) if query.marker else Q()
    aliases = [alias for alias in journal_aliases() if query.cell in ("", "api" if alias == API_ALIAS else alias)]

    def ask(alias: str) -> tuple[list[WorkflowRun], dict[str, Counter[str]]]:
        rows = WorkflowRun.objects.using(alias)
        page = list(workflows.standing(rows.filter(narrow, *_chosen(query), later))[: query.limit + 1])
        return page, {facet: _counts(rows.filter(narrow, *_chosen(query, but=facet)), facet) for facet in FACETS}

    found = scatter_gather(ask, aliases)
    placed = [(alias, run) for alias, (runs, _) in found.answers.items() for run in runs]
    placed.sort(key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [presenter.brief(context, alias, run) for alias, run in placed[: query.limit]]
    sums = {facet: sum((counts[facet] for _, counts in found.answers.values()), Counter[str]()) for facet in FACETS}
    facets = {facet: dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))) for facet, counts in sums.items()}
    return RunPage(Page(shown, has_more=len(placed) > query.limit, missing_cells=found.failures), facets)


def _narrowed(context: RequestContext, query: RunQuery) -> Q:
    wanted = workflows.scope(context)
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
    """Return the conditions of the facets, except of `but`."""
    chosen = {facet: getattr(query, facet) for facet in FACETS if facet != but and getattr(query, facet)}
    states = [presenter.among(chosen.pop("state"))] if "state" in chosen else []
    return [*states, *(Q(**{f"{facet}__in": values}) for facet, values in chosen.items())]


def _counts(runs: presenter.Runs, facet: str) -> Counter[str]:
    counted = presenter.SHOWN_STATE if facet == "state" else F(facet)
    rows = workflows.standing(runs).order_by().annotate(value=counted).values_list("value").annotate(count=Count("pk"))
    return Counter({str(value): count for value, count in rows})
