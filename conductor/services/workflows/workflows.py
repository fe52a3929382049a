"""Workflow runs for their owners and operators, with their steps, including planned ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import connections
from django.db.models import Q

from conductor.api_db.models import InstanceMapping
from conductor.cells.lookup import API_ALIAS, cell_aliases, journal_aliases
from conductor.cells.scatter_gather import GatherResult, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState
from conductor.db.rows import Rows
from conductor.journal.models import WorkflowRun
from conductor.services.workflows import event_log, presenter
from conductor.services.workflows.event_log import Cursor
from conductor.services.workflows.types import EventView, RunView

MOST_EVENTS = 1000
BUILT_BEFORE_BY = "built_before_by"  # input of a build that repeats another one: the uuid of that one
_RUNS = Rows(WorkflowRun, "uuid")


def get(context: RequestContext, run_uuid: UUID | str) -> RunView:
    """Return a run with its steps and locks, and its children. Raises NotFound."""
    alias, run = locate(context, run_uuid)
    children = _rows(lambda runs: runs.filter(parent_uuid=run.uuid).order_by("pk"), cell_aliases())
    views = presenter.detailed(context, [(alias, run), *_pairs(children)])
    # A cell's run hands no work to another cell.
    missing = children.failures if alias == API_ALIAS else {}
    return replace(views[0], children=views[1:], missing_cells=missing)


def for_instance(context: RequestContext, instance_uuid: UUID | str) -> list[RunView]:
    """Return every run on an instance, newest first, each with its steps. Raises NotFound.

    A run of the API level that has handed the instance to a cell is left out: the cell's run replaces it.
    """
    wanted = uuid_or_none(str(instance_uuid))
    mapping = InstanceMapping.objects.filter(instance_uuid=wanted).first() if wanted else None
    if mapping is None or not context.may_see_project(mapping.project_id):
        raise NotFound(phrase("Instance %(instance)s could not be found.", instance=instance_uuid))
    mine = Q(instance_uuid=wanted) | Q(uuid__in=builds_of(mapping.build_run_uuid))
    found = _rows(lambda runs: standing(runs.filter(mine)), journal_aliases())
    views = presenter.detailed(context, _pairs(found))
    return sorted(views, key=lambda view: (view.created_at, view.uuid), reverse=True)


def builds_of(build_run_uuid: UUID | str) -> list[str]:
    """Return the uuids of the API-level runs that have built an instance: the last one, and those that it repeats."""
    found, wanted = [], str(build_run_uuid)
    while wanted and wanted not in found:
        found.append(wanted)
        inputs = WorkflowRun.objects.using(API_ALIAS).filter(uuid=wanted).values_list("inputs", flat=True).first()
        wanted = (inputs or {}).get(BUILT_BEFORE_BY, "")
    return found


def list_runs(
    context: RequestContext,
    *,
    states: Iterable[str] | None = None,
    since: datetime | None = None,
    limit: int = 50,
    marker: str = "",
    only_own_project: bool = False,
) -> Page[RunView]:
    """Return runs of the caller's project, newest first, without steps.

    An administrator gets those of all projects, unless `only_own_project`. A run that has handed all its work on is
    left out: its children replace it. Raises Invalid for an unknown marker.
    """
    wanted = scope(context, only_own_project=only_own_project)
    if states is not None:
        wanted &= presenter.among(states)
    if since is not None:
        wanted &= Q(created_at__gte=since)
    if marker:
        wanted &= before_marker(context, marker)
    found = _rows(lambda runs: standing(runs.filter(wanted))[: limit + 1], journal_aliases())
    newest = sorted(_pairs(found), key=lambda pair: (-pair[1].created_at.timestamp(), str(pair[1].uuid)))
    shown = [presenter.brief(context, alias, run) for alias, run in newest[:limit]]
    return Page(items=shown, has_more=len(newest) > limit, missing_cells=found.failures)


def count(context: RequestContext, *, states: Iterable[str], since: datetime | None = None) -> int:
    """Return how many runs of the caller's project `list_runs` would list."""
    wanted = scope(context, only_own_project=True) & presenter.among(states)
    if since is not None:
        wanted &= Q(created_at__gte=since)

    def ask(alias: str) -> int:
        return standing(WorkflowRun.objects.using(alias).filter(wanted)).count()

    return sum(scatter_gather(ask, journal_aliases()).answers.values())


def ahead_in_queue(run: RunView) -> int:
    """Return how many runs, of all projects, are queued before a run that no conductor has claimed."""
    rows = WorkflowRun.objects.using(run.cell or API_ALIAS).filter(state=RunState.QUEUED, waits_for__isnull=True)
    return rows.filter(created_at__lt=run.created_at).count()


def briefs(context: RequestContext, run_uuids: Sequence[str]) -> dict[str, RunView]:
    """Return runs by uuid, without steps, as lists of instances show them. Unknown ones are left out."""
    wanted = [uuid for uuid in map(uuid_or_none, run_uuids) if uuid]
    if not wanted:
        return {}
    found = scatter_gather(lambda alias: _RUNS.among(connections[alias], wanted), journal_aliases())
    seen = [(alias, run) for alias, run in _pairs(found) if context.may_see_project(run.project_id)]
    return {str(run.uuid): presenter.brief(context, alias, run) for alias, run in seen}


def events_since(
    context: RequestContext, run_uuid: UUID | str, after: Cursor, limit: int = MOST_EVENTS
) -> tuple[list[EventView], Cursor]:
    """Return the events of a run and its children after a cursor, and the next cursor. Raises NotFound."""
    alias, run = locate(context, run_uuid)
    children = _rows(lambda runs: runs.filter(parent_uuid=run.uuid), cell_aliases())
    by_alias: dict[str, list[str]] = {}
    for place, row in [(alias, run), *_pairs(children)]:
        by_alias.setdefault(place, []).append(str(row.uuid))
    events, reached = event_log.of_runs(by_alias, after, limit)
    return [presenter.redacted(context, event) for event in events], reached


def events_of_project(
    context: RequestContext, after: Cursor, limit: int = MOST_EVENTS, *, topic: str = "", kind: str = ""
) -> tuple[list[EventView], Cursor]:
    """Return the events that the caller may see; of one topic, or of kinds with a prefix, if given."""
    events, reached = event_log.visible(context, after, limit, topic=topic, kind=kind)
    return [presenter.redacted(context, event) for event in events], reached


def locate(context: RequestContext, run_uuid: UUID | str) -> tuple[str, WorkflowRun]:
    """Return a run and its database. Raises NotFound, and CellUnavailable when it may be in a cell that is down."""
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
            raise CellUnavailable(
                phrase(
                    "The workflow may be in a cell that doesn't respond: %(cells)s.", cells=", ".join(found.failures)
                )
            )
    if run is None or not context.may_see_project(run.project_id):
        raise missing
    return alias, run


def live_children(run: WorkflowRun) -> list[tuple[str, WorkflowRun]]:
    """Return the unfinished children of a run, with their databases."""
    return _pairs(_rows(lambda runs: runs.filter(parent_uuid=run.uuid, state__in=LIVE_RUN_STATES), cell_aliases()))


def _rows(narrow: presenter.CatalogFilter, aliases: Iterable[str]) -> GatherResult[list[WorkflowRun]]:
    return scatter_gather(lambda alias: list(narrow(WorkflowRun.objects.using(alias))), aliases)


def _pairs(gathered: GatherResult[list[WorkflowRun]]) -> list[tuple[str, WorkflowRun]]:
    return [(alias, run) for alias, runs in gathered.answers.items() for run in runs]


def standing(runs: presenter.Runs) -> presenter.Runs:
    """Return runs, newest first, without those that are replaced by their children."""
    return runs.exclude(flow="build_instances", state=RunState.DONE).order_by("-created_at", "uuid")


def scope(context: RequestContext, *, only_own_project: bool = False) -> Q:
    """Return the condition for runs that the caller may see."""
    return Q() if context.is_admin and not only_own_project else Q(project_id=context.project_id)


def before_marker(context: RequestContext, marker: str) -> Q:
    """Return the condition for runs after `marker` in a list with the newest first. Raises Invalid."""
    try:
        _, anchor = locate(context, marker)
    except NotFound:
        raise Invalid(phrase("Marker %(marker)s could not be found.", marker=marker), field="marker") from None
    return Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, uuid__gt=anchor.uuid)


# Number of requests of this process that may wait at once: half of the web threads, so that others are served
# meanwhile.
MOST_WAITING = 8
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.5
_places = threading.BoundedSemaphore(MOST_WAITING)


def end_of(alias: str, run_uuid: str, seconds: float) -> str | None:
    """Wait for the final state of a run in the database `alias`.

    Returns None when there is none after `seconds`, or when MOST_WAITING requests of this process wait already. The
    caller must not have an open transaction, and none is open between two reads.
    """
    if not _places.acquire(blocking=False):
        return _final_state(alias, run_uuid)
    try:
        return _await(alias, run_uuid, time.monotonic() + seconds)
    finally:
        _places.release()


def _await(alias: str, run_uuid: str, until: float) -> str | None:
    pause = SHORTEST_PAUSE_SECONDS
    while (state := _final_state(alias, run_uuid)) is None and (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return state


def _final_state(alias: str, run_uuid: str) -> str | None:
    states = WorkflowRun.objects.using(alias).filter(uuid=run_uuid, state__in=FINAL_RUN_STATES)
    return states.values_list("state", flat=True).first()
