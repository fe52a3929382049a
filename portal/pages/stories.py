"""A workflow as a page shows it: one run, what it became, and the words for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.states import RunState
from conductor.services import flows, usual_times
from conductor.services.usual_times import Usual
from conductor.services.values import RunView, StepView
from portal.pages import faces, timeline
from portal.pages.faces import Face
from portal.pages.timeline import Timeline


@dataclass(frozen=True)
class Story:
    """A run with those that it handed work to; `uuid` is the one that was asked for."""

    view: RunView
    uuid: str
    now: datetime

    @property
    def runs(self) -> list[RunView]:
        return [self.view, *self.view.children]

    @property
    def intent(self) -> str:
        return faces.intent(self.view)

    @property
    def subject(self) -> str:
        return faces.subject(self.view)

    @property
    def face(self) -> Face:
        return faces.of_story(self.view)

    @property
    def is_live(self) -> bool:
        return faces.is_live(self.view)

    @property
    def seconds(self) -> float:
        ends = [run.finished_at for run in self.runs if run.finished_at]
        end = self.now if self.is_live or not ends else max(ends)
        return max(0.0, (end - self.view.created_at).total_seconds())

    @property
    def cells(self) -> str:
        return ", ".join(sorted({run.cell for run in self.runs if run.cell}))

    @property
    def servers(self) -> list[str]:
        """Those that it works on, except for one that it has deleted."""
        if self.view.flow == "delete_instance" and self.view.state == RunState.DONE:
            return []
        return list(dict.fromkeys(run.instance_uuid for run in self.runs if run.instance_uuid))

    @property
    def leftovers(self) -> list[str]:
        return [left for run in self.runs for left in run.leftovers]

    @cached_property
    def timeline(self) -> Timeline:
        return timeline.draw(self.view, self.now, usual_times.of_steps(run.flow for run in self.runs))

    @cached_property
    def usual(self) -> Usual | None:
        """How long such a workflow takes, as far as that is known."""
        return usual_times.of_story(self.view)

    @property
    def is_slow(self) -> bool:
        return self.usual is not None and self.seconds > self.usual.p95

    @property
    def current_step(self) -> StepView | None:
        """What is under way now; else the last that was tried."""
        tried = [step for run in self.runs for step in run.steps if step.started_at is not None]
        under_way = [step for step in tried if step.finished_at is None]
        return next(reversed(under_way or tried), None)

    @property
    def step_words(self) -> str:
        """step 5 of 7 “Spawn on host”; of several servers, how many are done."""
        if len(self.view.children) > 1:
            done = sum(not faces.is_live(child) for child in self.view.children)
            return gettext("%(done)s of %(count)s servers are through") % {
                "done": done,
                "count": len(self.view.children),
            }
        step = self.current_step
        if step is None:
            return ""
        planned = [
            one for run in self.runs for one in run.steps if one.direction == "do" and one.attempt == run.attempt
        ]
        names = list(dict.fromkeys(one.name for one in planned))
        if step.direction == "undo":
            return gettext("undoing “%(step)s”") % {"step": gettext(step.title)}
        number = names.index(step.name) + 1 if step.name in names else 1
        said = {"number": number, "count": len(names), "step": gettext(step.title)}
        return gettext("step %(number)s of %(count)s “%(step)s”") % said


def of(run: RunView) -> Story:
    """A story from a run that is already at hand."""
    return Story(run, run.uuid, datetime.now(UTC))


def load(context: RequestContext, run_uuid: str) -> Story:
    """The story of a run: for one in a cell, with the run that handed over to it. Raises NotFound."""
    run = flows.get(context, run_uuid)
    if not run.parent_uuid:
        return of(run)
    parent = flows.get(context, run.parent_uuid)
    mine = [child for child in parent.children if child.uuid == run.uuid]
    return Story(replace(parent, children=mine), run.uuid, datetime.now(UTC))


def _is_current(run: RunView, step: StepView) -> bool:
    return step.direction == "do" and step.attempt == run.attempt
