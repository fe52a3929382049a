"""Comparison of two workflows of one kind: aligned steps, durations, inputs and hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services.scheduling import decisions
from conductor.services.workflows import lists, run_data
from conductor.services.workflows.lists import WorkflowListQuery
from conductor.services.workflows.types import RunView, StepView
from portal.pages import status_badges
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.plugin_names import words
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter

MOST_OFFERED = 20
MOST_READ = 4  # runs of a workflow whose inputs are compared
NOTABLE_SECONDS = 0.05  # a smaller difference is noise


@dataclass(frozen=True)
class StepAttempts:
    """One workflow's attempts of a step taken together; empty if it has no such step."""

    badge: StatusBadge
    seconds: float | None
    tries: int
    where: str


@dataclass(frozen=True)
class Pair:
    """A step of both. `difference` is how many seconds longer the second took; the shares draw it."""

    title: str
    one: StepAttempts | None
    other: StepAttempts | None
    difference: float | None
    share_one: float = 0.0
    share_other: float = 0.0


@require_safe
@signed_in
def compare(request: PageRequest) -> HttpResponse:
    """Show the comparison; with one workflow given, ask for the other."""
    one = workflow_presenter.load(request.caller, request.GET.get("a", ""))
    context: dict[str, Any] = {"caller": request.caller, "one": one}
    if not request.GET.get("b"):
        return render(request, "workflows/compare.html", {**context, "offered": _offered(request.caller, one)})
    other = workflow_presenter.load(request.caller, request.GET["b"])
    if not {run.flow for run in one.runs} & {run.flow for run in other.runs}:
        raise Invalid("You can only compare workflows of the same type.", field="b")
    pairs = align(one, other)
    context |= {
        "other": other,
        "pairs": pairs,
        "difference": other.seconds - one.seconds,
        "inputs": run_data.changes(_inputs(request.caller, one), _inputs(request.caller, other)),
        "placement": _placement(request.caller, one, other),
    }
    return render(request, "workflows/compare.html", context)


def _inputs(caller: RequestContext, presenter: WorkflowPresenter) -> dict[str, Any]:
    """Return the inputs by flow, as child runs have inputs of their own."""
    return {run.flow: run_data.of_run(caller, run.uuid).inputs for run in presenter.runs[:MOST_READ]}


def align(one: WorkflowPresenter, other: WorkflowPresenter) -> list[Pair]:
    """Align steps by name, in the order of the first workflow; the second's own steps come at their place there."""
    mine, theirs = _by_name(one), _by_name(other)
    names = list(mine)
    for place, name in enumerate(theirs):
        if name not in mine:
            names.insert(min(place, len(names)), name)
    longest = max((side.seconds or 0.0 for _, side in [*mine.values(), *theirs.values()]), default=0.0) or 1.0
    pairs = []
    for name in names:
        title = (mine.get(name) or theirs[name])[0]
        here, there = mine.get(name, ("", None))[1], theirs.get(name, ("", None))[1]
        both = here is not None and there is not None
        known = both and here.seconds is not None and there.seconds is not None  # type: ignore[union-attr]
        difference = there.seconds - here.seconds if known else None  # type: ignore[operator,union-attr]
        if difference is not None and abs(difference) < NOTABLE_SECONDS:
            difference = 0.0
        shares = [((side.seconds or 0.0) if side else 0.0) / longest for side in (here, there)]
        pairs.append(Pair(title, here, there, difference, *shares))
    return pairs


def _by_name(presenter: WorkflowPresenter) -> dict[str, tuple[str, StepAttempts]]:
    """Return every forward step of a workflow's runs, with its attempts added up."""
    found: dict[str, tuple[str, StepAttempts]] = {}
    for run in presenter.runs:
        steps: dict[str, list[StepView]] = {}
        for step in run.steps:
            if step.direction == "do":
                steps.setdefault(step.name, []).append(step)
        for name, tries in steps.items():
            found.setdefault(f"{run.flow}:{name}", (tries[0].title, _side(run, tries, presenter)))
    return found


def _side(run: RunView, tries: list[StepView], presenter: WorkflowPresenter) -> StepAttempts:
    begun = [step for step in tries if step.started_at is not None]
    spent = [
        ((step.finished_at or presenter.now) - step.started_at).total_seconds() for step in begun if step.started_at
    ]
    last = begun[-1] if begun else tries[-1]
    return StepAttempts(
        badge=status_badges.of_step(last),
        seconds=sum(spent) if spent else None,
        tries=len(begun),
        where=last.lane.partition("/")[2],
    )


def _placement(caller: RequestContext, one: WorkflowPresenter, other: WorkflowPresenter) -> list[tuple[str, Any, Any]]:
    """Return the scheduler's results for each: hosts left after each filter, and the choice."""
    sides = []
    for presenter in (one, other):
        found = decisions.for_run(caller, presenter.view.uuid)
        rows: dict[str, Any] = {}
        if found:
            last = found[-1]
            rows = {gettext("Decisions"): len(found), gettext("Hosts"): last.num_hosts}
            after = gettext("After %(filter)s")
            rows |= {
                after % {"filter": words(str(stage["filter"]))}: stage["after"]
                for stage in last.funnel
                if stage["before"]
            }
            chosen = ", ".join(str(selection["host"]) for selection in last.selections)
            rows[gettext("Selected")] = chosen or gettext("none")
        sides.append(rows)
    return run_data.changes(sides[0], sides[1])


def _offered(caller: RequestContext, one: WorkflowPresenter) -> list[WorkflowPresenter]:
    """Return the newest workflows of the same kind."""
    last = one.runs[-1] if len(one.view.children) == 1 else one.view
    query = WorkflowListQuery(chosen={"flow": (last.flow,)}, all_projects=caller.is_admin, limit=MOST_OFFERED + 1)
    found = lists.search(caller, query).page.items
    mine = {run.uuid for run in one.runs}
    return [workflow_presenter.of(run) for run in found if run.uuid not in mine][:MOST_OFFERED]
