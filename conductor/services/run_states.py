"""The state of a run as everybody is told it: one that waits for a host is at work there, on its way or back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from django.db.models import Case, CharField, F, Q, Value, When
from django.db.models.lookups import In

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState, WaitCause
from conductor.journal.models import WorkflowRun
from conductor.services.values import RunView

_ON_A_HOST = Q(state=RunState.WAITING, waits_for__cause=WaitCause.HOST)
_AT_WORK = frozenset({RunState.RUNNING, RunState.UNDOING})
# The same in SQL, for counts and filters: a list that is narrowed to a word has the rows that show it.
TOLD = Case(
    When(_ON_A_HOST & Q(direction="undo"), then=Value(RunState.UNDOING)),
    When(_ON_A_HOST, then=Value(RunState.RUNNING)),
    default=F("state"),
    output_field=CharField(),
)


def told(run: WorkflowRun) -> str:
    """The word for the state of a run."""
    if run.state == RunState.WAITING and (run.waits_for or {}).get("cause") == WaitCause.HOST:
        return RunState.UNDOING if run.direction == "undo" else RunState.RUNNING
    return run.state


def among(states: Iterable[str]) -> Q:
    """Runs whose state is told with one of these words."""
    wanted = set(states)
    kept = Q(state__in=wanted | {RunState.WAITING} if wanted & _AT_WORK else wanted)
    is_plain = not wanted & {*_AT_WORK, RunState.WAITING} or wanted >= {*_AT_WORK, RunState.WAITING}
    return kept if is_plain else kept & Q(In(TOLD, sorted(wanted)))


def with_steps_ahead(run: RunView) -> RunView:
    """A run whose steps that have not begun are told as planned while it goes forward, else as not run.

    A run that is over, or on its way back, begins no further step. Who goes forward again after that does it in
    another attempt.
    """
    has_turned = any(step.direction == "undo" and step.attempt == run.attempt for step in run.steps)
    goes_forward = run.state in LIVE_RUN_STATES and run.state != RunState.UNDOING and not has_turned
    ahead = StepState.PLANNED if goes_forward else StepState.NOT_RUN
    return replace(run, steps=[step if step.started_at else replace(step, state=ahead) for step in run.steps])
