"""Presentation of a workflow: its run and child runs, with words and badges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.states import RunState, StepState
from conductor.services.workflows import duration_statistics, workflows
from conductor.services.workflows.duration_statistics import DurationStatistics
from conductor.services.workflows.types import RunView, StepView
from portal.pages import status_badges
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import timeline
from portal.pages.timeline.timeline import Timeline


@dataclass(frozen=True)
class WorkflowPresenter:
    """A run with its children; `uuid` is the requested run."""

    view: RunView
    uuid: str
    now: datetime

    @property
    def runs(self) -> list[RunView]:
        return [self.view, *self.view.children]

    @property
    def intent(self) -> str:
        return status_badges.intent(self.view)

    @property
    def subject(self) -> str:
        return status_badges.subject(self.view)

    @property
    def badge(self) -> StatusBadge:
        return status_badges.of_presenter(self.view)

    @property
    def is_live(self) -> bool:
        return status_badges.is_live(self.view)

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
        """The servers that it works on, except one that it has deleted."""
        if self.view.flow == "delete_instance" and self.view.state == RunState.DONE:
            return []
        return list(dict.fromkeys(run.instance_uuid for run in self.runs if run.instance_uuid))

    @property
    def was_undone_late(self) -> bool:
        """Whether a compensation was blocked by an unresponsive host when the run ended, and is done now."""
        is_over = self.view.state in (RunState.FAILED_UNDONE, RunState.CANCELLED)
        return is_over and any(step.state == StepState.UNDO_FAILED for step in self.view.steps)

    @property
    def uncompensated(self) -> list[str]:
        return [left for run in self.runs for left in run.uncompensated]

    @cached_property
    def timeline(self) -> Timeline:
        return timeline.draw(self.view, self.now, duration_statistics.of_steps(run.flow for run in self.runs))

    @cached_property
    def typical(self) -> DurationStatistics | None:
        """The typical duration of such a workflow, if known."""
        return duration_statistics.of_presenter(self.view)

    @property
    def is_slow(self) -> bool:
        return self.typical is not None and self.seconds > self.typical.p95

    @property
    def current_step(self) -> StepView | None:
        """The current step, else the last attempted one."""
        tried = [step for run in self.runs for step in run.steps if step.started_at is not None]
        under_way = [step for step in tried if step.finished_at is None]
        return next(reversed(under_way or tried), None)

    @property
    def step_words(self) -> str:
        """Return the progress: step 5 of 7 “Spawn on host”; for several servers, how many are done."""
        if len(self.view.children) > 1:
            done = sum(not status_badges.is_live(child) for child in self.view.children)
            return gettext("%(done)s of %(count)s servers finished") % {
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
        fields = {"number": number, "count": len(names), "step": gettext(step.title)}
        return gettext("step %(number)s of %(count)s “%(step)s”") % fields


def of(run: RunView) -> WorkflowPresenter:
    """Return the presenter of a run that is already loaded."""
    return WorkflowPresenter(run, run.uuid, datetime.now(UTC))


def load(context: RequestContext, run_uuid: str) -> WorkflowPresenter:
    """Load a run; for one in a cell, with the run that started it. Raises NotFound."""
    run = workflows.get(context, run_uuid)
    if not run.parent_uuid:
        return of(run)
    parent = workflows.get(context, run.parent_uuid)
    mine = [child for child in parent.children if child.uuid == run.uuid]
    return WorkflowPresenter(replace(parent, children=mine), run.uuid, datetime.now(UTC))


def _is_current(run: RunView, step: StepView) -> bool:
    return step.direction == "do" and step.attempt == run.attempt
