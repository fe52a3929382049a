"""A workflow as of one of its events, without everything that happened later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from conductor.core.errors import Invalid
from conductor.core.states import RunState, StepState, WaitCause
from conductor.services.workflows import presenter as run_states
from conductor.services.workflows.types import EventView, RunView, StepView
from portal.pages.timeline.presenter import WorkflowPresenter

# State of a run after an event; other events do not change it.
STATES = {
    "run.queued": RunState.QUEUED,
    "run.started": RunState.RUNNING,
    "run.undoing": RunState.UNDOING,
    "run.rescheduled": RunState.RUNNING,
    "run.waiting": RunState.WAITING,
}
# The others end a later cleanup of a run that has ended with uncompensated effects.
ENDS = ("run.ended", "run.cleaned", "run.cleanup_failed")


def place_of(text: str, field: str) -> int:
    """Return the number of an event in an address, from 1; 0 for none. Raises Invalid."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise Invalid(gettext("%(field)s must be the number of an event, from 1.") % {"field": field}, field=field)
    return int(text)


def as_of(presenter: WorkflowPresenter, seen: Sequence[EventView], moment: datetime) -> WorkflowPresenter:
    """Return the workflow at a moment, when only the events in `seen` had happened."""
    view = _run_at(presenter.view, seen, moment)
    children = [_run_at(child, seen, moment) for child in presenter.view.children if child.created_at <= moment]
    return WorkflowPresenter(replace(view, children=children), presenter.uuid, moment)


def _run_at(run: RunView, seen: Sequence[EventView], moment: datetime) -> RunView:
    mine = [event for event in seen if event.run_uuid == run.uuid]
    state, waits_for = _state_after(mine, run.state)
    is_over = run.finished_at is not None and run.finished_at <= moment
    observed = next((event for event in reversed(mine) if event.kind == "step.progress"), None)
    steps = [
        _step_at(step, moment, observed) for step in run.steps if step.started_at is None or step.started_at <= moment
    ]
    attempt = max((step.attempt for step in steps if step.started_at is not None), default=1)
    then = replace(
        run,
        state=state,
        waits_for=waits_for,
        attempt=attempt,
        started_at=run.started_at if run.started_at and run.started_at <= moment else None,
        finished_at=run.finished_at if is_over else None,
        error=run.error if any("error" in event.data for event in mine) else None,
        uncompensated=run.uncompensated if is_over else [],
        locks=[] if is_over else run.locks,
        owner="",
        lease_expires_at=None,
        steps=[*(step for step in steps if step.started_at is not None), *_ahead(run, steps, attempt)],
    )
    return run_states.with_steps_ahead(then)


def _state_after(events: Sequence[EventView], last: str) -> tuple[str, Any]:
    """Return the run's state after the events, and what it waited for; `last` is for a final event without state."""
    state: str = RunState.QUEUED
    at_work: str = RunState.RUNNING  # or undoing: the state to return to after a wait
    waits_for: Any = None
    for event in events:
        if event.kind in ENDS:
            state, waits_for = str(event.data.get("state", last)), None
        elif event.kind in STATES:
            state, waits_for = STATES[event.kind], event.data.get("waits_for")
            at_work = state if state in (RunState.RUNNING, RunState.UNDOING) else at_work
        elif event.kind == "step.started" and state in (RunState.WAITING, RunState.QUEUED):
            state, waits_for = at_work, None
        if state == RunState.WAITING and waits_for and waits_for.get("cause") == WaitCause.HOST:
            state = at_work  # that host is working
    return state, waits_for


def _step_at(step: StepView, moment: datetime, observed: EventView | None) -> StepView:
    """Return a step at a moment; `observed` is the run's last progress event."""
    if step.started_at is None or (step.finished_at is not None and step.finished_at <= moment):
        return step
    is_its = observed is not None and observed.data.get("step") == step.name and observed.created_at >= step.started_at
    then = replace(step, progress=observed.data.get("progress") if observed is not None and is_its else None)
    if step.finished_at is None:
        return then
    state = StepState.WAITING if step.host else StepState.RUNNING
    return replace(then, state=state, finished_at=None, error=None, result=None)


def _ahead(run: RunView, steps: Sequence[StepView], attempt: int) -> list[StepView]:
    """Return the planned steps: every forward step of the attempt that had not begun."""
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
