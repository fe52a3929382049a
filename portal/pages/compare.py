"""Two workflows of one kind side by side: steps aligned, what took longer, what went in otherwise, where they went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services import decisions, flow_lists, run_data
from conductor.services.flow_lists import ListQuery
from conductor.services.values import RunView, StepView
from portal.pages import faces, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.faces import Face
from portal.pages.plugin_words import words
from portal.pages.stories import Story

MOST_OFFERED = 20
MOST_READ = 4  # runs of a story whose inputs are compared
TELLING_SECONDS = 0.05  # a smaller difference is noise


@dataclass(frozen=True)
class Side:
    """What one of the two did of a step: its tries taken together. None of it where it has no such step."""

    face: Face
    seconds: float | None
    tries: int
    where: str


@dataclass(frozen=True)
class Pair:
    """A step of both. `difference` is how many seconds the second took longer; the shares draw it."""

    title: str
    one: Side | None
    other: Side | None
    difference: float | None
    share_one: float = 0.0
    share_other: float = 0.0


@require_safe
@signed_in
def compare(request: PageRequest) -> HttpResponse:
    """Asks what to compare with, where only one is named."""
    one = stories.load(request.asker, request.GET.get("a", ""))
    context: dict[str, Any] = {"asker": request.asker, "one": one}
    if not request.GET.get("b"):
        return render(request, "workflows/compare.html", {**context, "offered": _offered(request.asker, one)})
    other = stories.load(request.asker, request.GET["b"])
    if not {run.flow for run in one.runs} & {run.flow for run in other.runs}:
        raise Invalid("Only workflows of one kind can be compared.", field="b")
    pairs = align(one, other)
    context |= {
        "other": other,
        "pairs": pairs,
        "difference": other.seconds - one.seconds,
        "inputs": run_data.changes(_inputs(request.asker, one), _inputs(request.asker, other)),
        "placement": _placement(request.asker, one, other),
    }
    return render(request, "workflows/compare.html", context)


def _inputs(asker: RequestContext, story: Story) -> dict[str, Any]:
    """By flow, as a story may have handed its work on."""
    return {run.flow: run_data.of_run(asker, run.uuid).inputs for run in story.runs[:MOST_READ]}


def align(one: Story, other: Story) -> list[Pair]:
    """Steps by name, in the order of the first; what only the second has comes where it stands there."""
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
        if difference is not None and abs(difference) < TELLING_SECONDS:
            difference = 0.0
        shares = [((side.seconds or 0.0) if side else 0.0) / longest for side in (here, there)]
        pairs.append(Pair(title, here, there, difference, *shares))
    return pairs


def _by_name(story: Story) -> dict[str, tuple[str, Side]]:
    """Every forward step of a story's runs, its tries added up."""
    found: dict[str, tuple[str, Side]] = {}
    for run in story.runs:
        steps: dict[str, list[StepView]] = {}
        for step in run.steps:
            if step.direction == "do":
                steps.setdefault(step.name, []).append(step)
        for name, tries in steps.items():
            found.setdefault(f"{run.flow}:{name}", (tries[0].title, _side(run, tries, story)))
    return found


def _side(run: RunView, tries: list[StepView], story: Story) -> Side:
    begun = [step for step in tries if step.started_at is not None]
    spent = [((step.finished_at or story.now) - step.started_at).total_seconds() for step in begun if step.started_at]
    last = begun[-1] if begun else tries[-1]
    return Side(
        face=faces.of_step(last),
        seconds=sum(spent) if spent else None,
        tries=len(begun),
        where=last.lane.partition("/")[2],
    )


def _placement(asker: RequestContext, one: Story, other: Story) -> list[tuple[str, Any, Any]]:
    """What the scheduler said to each: hosts left after each question, and what was chosen."""
    sides = []
    for story in (one, other):
        found = decisions.for_run(asker, story.view.uuid)
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
            rows[gettext("Chosen")] = chosen or gettext("none")
        sides.append(rows)
    return run_data.changes(sides[0], sides[1])


def _offered(asker: RequestContext, one: Story) -> list[Story]:
    """The newest of the same kind."""
    last = one.runs[-1] if len(one.view.children) == 1 else one.view
    query = ListQuery(chosen={"flow": (last.flow,)}, all_projects=asker.is_admin, limit=MOST_OFFERED + 1)
    found = flow_lists.search(asker, query).page.items
    mine = {run.uuid for run in one.runs}
    return [stories.of(run) for run in found if run.uuid not in mine][:MOST_OFFERED]
