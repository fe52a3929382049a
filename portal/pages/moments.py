"""A workflow as it was at one of its events: what came later is taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.states import RunState, StepState
from conductor.services.values import EventView, RunView, StepView
from portal.pages.stories import Story

# What a run is after an event; the others do not change its state.
STATES = {
    "run.queued": RunState.QUEUED,
    "run.started": RunState.RUNNING,
    "run.undoing": RunState.UNDOING,
    "run.rescheduled": RunState.RUNNING,
    "run.waiting": RunState.WAITING,
}


def position(text: str, events: Sequence[EventView]) -> int | None:
    """Which event is asked for, from 1; None for the newest. Raises Invalid for anything else."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= max(len(events), 1)):
        raise Invalid(f"as_of is the place of an event: a number from 1 to {len(events)}.", field="as_of")
    return int(text) if int(text) < len(events) else None


def as_of(story: Story, events: Sequence[EventView], place: int) -> Story:
    """The story when the first `place` of its events had happened."""
    seen = events[:place]
    moment = seen[-1].created_at
    view = _run_at(story.view, seen, moment)
    children = [_run_at(child, seen, moment) for child in story.view.children if child.created_at <= moment]
    return Story(replace(view, children=children), story.uuid, moment)


def _run_at(run: RunView, seen: Sequence[EventView], moment: datetime) -> RunView:
    mine = [event for event in seen if event.run_uuid == run.uuid]
    state: str = RunState.QUEUED
    waits_for: Any = None
    for event in mine:
        if event.kind == "run.ended":
            state, waits_for = str(event.data.get("state", run.state)), None
        elif event.kind in STATES:
            state, waits_for = STATES[event.kind], event.data.get("waits_for")
        elif event.kind == "step.started" and state in (RunState.WAITING, RunState.QUEUED):
            state, waits_for = RunState.RUNNING, None
    is_over = run.finished_at is not None and run.finished_at <= moment
    steps = [_step_at(step, moment) for step in run.steps if step.started_at is None or step.started_at <= moment]
    attempt = max((step.attempt for step in steps if step.started_at is not None), default=1)
    return replace(
        run,
        state=state,
        waits_for=waits_for,
        attempt=attempt,
        started_at=run.started_at if run.started_at and run.started_at <= moment else None,
        finished_at=run.finished_at if is_over else None,
        error=run.error if any("error" in event.data for event in mine) else None,
        leftovers=run.leftovers if is_over else [],
        locks=[] if is_over else run.locks,
        owner="",
        lease_expires_at=None,
        steps=[*(step for step in steps if step.started_at is not None), *_ahead(run, steps, attempt)],
    )


def _step_at(step: StepView, moment: datetime) -> StepView:
    if step.finished_at is None or step.finished_at <= moment:
        return step
    state = StepState.WAITING if step.host else StepState.RUNNING
    return replace(step, state=state, finished_at=None, error=None, result=None)


def _ahead(run: RunView, steps: Sequence[StepView], attempt: int) -> list[StepView]:
    """What was planned then: every forward step of the attempt that had not begun."""
    begun = {
        step.index
        for step in steps
        if step.started_at is not None and step.direction == "do" and step.attempt == attempt
    }
    known = {step.index: step for step in run.steps if step.direction == "do" and step.index < run.step_count}
    return [
        replace(
            step, state=StepState.PLANNED, attempt=attempt, try_number=0, host="", worker="", fencing_token=0,
            step_key="", started_at=None, finished_at=None, progress=None, result=None, error=None,
            lane=step.lane.partition("/")[0],
        )
        for index, step in sorted(known.items())
        if index not in begun
    ]  # fmt: skip
