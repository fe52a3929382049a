"""Workflows as their owners and operators may see them: runs with their steps, planned ones included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import connections
from django.db.models import Q

from conductor.api_db.models import InstanceMapping
from conductor.cells.lookup import API_ALIAS, cell_aliases, journal_aliases
from conductor.cells.scatter_gather import Gathered, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.journal.models import WorkflowRun
from conductor.services import event_log, flow_views, run_states
from conductor.services.event_log import Cursor
from conductor.services.values import EventView, Page, RunView
from conductor.sql.rows import Rows

MOST_EVENTS = 1000
_RUNS = Rows(WorkflowRun, "uuid")


def get(context: RequestContext, run_uuid: UUID | str) -> RunView:
    """A run with its steps and locks, and the runs that it handed work to. Raises NotFound."""
    alias, run = locate(context, run_uuid)
    children = _rows(lambda runs: runs.filter(parent_uuid=run.uuid).order_by("pk"), cell_aliases())
    views = flow_views.detailed(context, [(alias, run), *_pairs(children)])
    # What a cell does itself it hands to no other.
    missing = children.failures if alias == API_ALIAS else {}
    return replace(views[0], children=views[1:], missing_cells=missing)


def for_instance(context: RequestContext, instance_uuid: UUID | str) -> list[RunView]:
    """Every run on an instance, newest first, each with its steps. Raises NotFound.

    A run of the API level that has handed the instance on is left out: the run in the cell goes on with it.
    """
    wanted = uuid_or_none(str(instance_uuid))
    mapping = InstanceMapping.objects.filter(instance_uuid=wanted).first() if wanted else None
    if mapping is None or not context.may_see_project(mapping.project_id):
        raise NotFound(f"Instance {instance_uuid} could not be found.")
    mine = Q(instance_uuid=wanted) | Q(uuid=mapping.build_run_uuid)
    found = _rows(lambda runs: standing(runs.filter(mine)), journal_aliases())
    views = flow_views.detailed(context, _pairs(found))
    return sorted(views, key=lambda view: (view.created_at, view.uuid), reverse=True)


def list_runs(
    context: RequestContext,
    *,
    states: Iterable[str] | None = None,
    since: datetime | None = None,
    limit: int = 50,
    marker: str = "",
    only_own_project: bool = False,
) -> Page[RunView]:
    """Runs of the asker's project, newest first, without steps; an administrator gets those of all projects,
    unless `only_own_project`.

    A run that has handed all its work on is left out: its children stand for it. Raises Invalid for a marker
    that is not a run's.
    """
    wanted = scope(context, only_own_project=only_own_project)
    if states is not None:
        wanted &= run_states.among(states)
    if since is not None:
        wanted &= Q(created_at__gte=since)
    if marker:
        wanted &= before_marker(context, marker)
    found = _rows(lambda runs: standing(runs.filter(wanted))[: limit + 1], journal_aliases())
    newest = sorted(_pairs(found), key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [flow_views.brief(context, alias, run) for alias, run in newest[:limit]]
    return Page(items=shown, has_more=len(newest) > limit, missing_cells=found.failures)


def count(context: RequestContext, *, states: Iterable[str], since: datetime | None = None) -> int:
    """How many runs of the asker's project `list_runs` would list."""
    wanted = scope(context, only_own_project=True) & run_states.among(states)
    if since is not None:
        wanted &= Q(created_at__gte=since)

    def ask(alias: str) -> int:
        return standing(WorkflowRun.objects.using(alias).filter(wanted)).count()

    return sum(scatter_gather(ask, journal_aliases()).answers.values())


def ahead_in_queue(run: RunView) -> int:
    """How many runs, of all projects, stand before one that no conductor has taken up yet."""
    rows = WorkflowRun.objects.using(run.cell or API_ALIAS).filter(state=RunState.QUEUED, waits_for__isnull=True)
    return rows.filter(created_at__lt=run.created_at).count()


def briefs(context: RequestContext, run_uuids: Sequence[str]) -> dict[str, RunView]:
    """Runs by uuid, without steps: what a list of instances shows beside each. Unknown ones are left out."""
    wanted = [uuid for uuid in map(uuid_or_none, run_uuids) if uuid]
    if not wanted:
        return {}
    found = scatter_gather(lambda alias: _RUNS.among(connections[alias], wanted), journal_aliases())
    seen = [(alias, run) for alias, run in _pairs(found) if context.may_see_project(run.project_id)]
    return {str(run.uuid): flow_views.brief(context, alias, run) for alias, run in seen}


def events_since(
    context: RequestContext, run_uuid: UUID | str, after: Cursor, limit: int = MOST_EVENTS
) -> tuple[list[EventView], Cursor]:
    """What happened to a run and its children after a place in the log, and how far that is. Raises NotFound."""
    alias, run = locate(context, run_uuid)
    children = _rows(lambda runs: runs.filter(parent_uuid=run.uuid), cell_aliases())
    by_alias: dict[str, list[str]] = {}
    for place, row in [(alias, run), *_pairs(children)]:
        by_alias.setdefault(place, []).append(str(row.uuid))
    events, reached = event_log.of_runs(by_alias, after, limit)
    return [flow_views.redacted(context, event) for event in events], reached


def events_of_project(
    context: RequestContext, after: Cursor, limit: int = MOST_EVENTS, *, topic: str = "", kind: str = ""
) -> tuple[list[EventView], Cursor]:
    """What happened to all that the asker may see; one topic, or kinds that begin so, where they are given."""
    events, reached = event_log.visible(context, after, limit, topic=topic, kind=kind)
    return [flow_views.redacted(context, event) for event in events], reached


def locate(context: RequestContext, run_uuid: UUID | str) -> tuple[str, WorkflowRun]:
    """A run and the database that it lies in. Raises NotFound, and CellUnavailable when it may be in a silent cell."""
    wanted = uuid_or_none(str(run_uuid))
    missing = NotFound(f"Workflow {run_uuid} could not be found.")
    if wanted is None:
        raise missing
    run = WorkflowRun.objects.using(API_ALIAS).filter(uuid=wanted).first()
    alias = API_ALIAS
    if run is None:
        found = _rows(lambda runs: runs.filter(uuid=wanted), cell_aliases())
        alias, run = next(iter(_pairs(found)), (API_ALIAS, None))
        if run is None and found.failures:
            raise CellUnavailable(f"The workflow may be in a cell that does not answer: {', '.join(found.failures)}.")
    if run is None or not context.may_see_project(run.project_id):
        raise missing
    return alias, run


def live_children(run: WorkflowRun) -> list[tuple[str, WorkflowRun]]:
    """The runs that a run handed work to and that go on still, with their databases."""
    return _pairs(_rows(lambda runs: runs.filter(parent_uuid=run.uuid, state__in=LIVE_RUN_STATES), cell_aliases()))


def _rows(narrow: flow_views.Narrowing, aliases: Iterable[str]) -> Gathered[list[WorkflowRun]]:
    return scatter_gather(lambda alias: list(narrow(WorkflowRun.objects.using(alias))), aliases)


def _pairs(gathered: Gathered[list[WorkflowRun]]) -> list[tuple[str, WorkflowRun]]:
    return [(alias, run) for alias, runs in gathered.answers.items() for run in runs]


def standing(runs: flow_views.Runs) -> flow_views.Runs:
    """Newest first, without runs whose children stand for them."""
    return runs.exclude(flow="build_instances", state=RunState.DONE).order_by("-created_at", "uuid")


def scope(context: RequestContext, *, only_own_project: bool = False) -> Q:
    """Runs that the asker may see."""
    return Q() if context.is_admin and not only_own_project else Q(project_id=context.project_id)


def before_marker(context: RequestContext, marker: str) -> Q:
    """Runs that come after `marker` in a list with the newest first. Raises Invalid."""
    try:
        _, anchor = locate(context, marker)
    except NotFound:
        raise Invalid(f"Marker {marker} could not be found.", field="marker") from None
    return Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, uuid__gt=anchor.uuid)
