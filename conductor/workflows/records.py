"""The checkpoints of a run: opening and closing step records, and telling the event log."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import connections

from conductor import events
from conductor.core.errors import NovellaError
from conductor.core.states import StepState
from conductor.journal import checkpoints
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.workflows import leases
from conductor.workflows.flow import Step

log = logging.getLogger(__name__)

OPEN_STATES = (StepState.RUNNING, StepState.WAITING)


@dataclass(slots=True)
class Opened:
    """The record of a step that this worker has begun: what it knows of it, without the weight of a model's object."""

    run_id: int
    index: int
    direction: str
    attempt: int
    try_number: int
    name: str
    worker: str
    step_key: str
    fencing_token: int
    state: str = StepState.RUNNING.value
    host: str = ""
    answer: Any = None
    result: Any = None
    pk: int = 0  # once it is written


Record = StepRecord | Opened


def key_of(run: WorkflowRun, index: int, try_number: int, direction: str = "") -> str:
    """The idempotency key of one try of one step: the same after a crash, another for each retry."""
    return f"{run.uuid}:{direction or run.direction}:{index}:{run.attempt}:{try_number}"


def current(alias: str, run: WorkflowRun, index: int) -> StepRecord | None:
    """The newest record of the step at `index` in the run's direction and attempt."""
    return checkpoints.NEWEST_RECORDS.find(connections[alias], run.pk, run.direction, index, run.attempt)


def open_record(run: WorkflowRun, step: Step, index: int, last: StepRecord | None) -> Record:
    """The open record of a step: `last` when a dead owner left it open, else a new try, which is not written yet."""
    if last is not None and last.state in OPEN_STATES:
        return last
    return new_record(run, step, index, last.try_number + 1 if last else 1)


def new_record(run: WorkflowRun, step: Step, index: int, try_number: int, direction: str = "") -> Opened:
    """A step's record before it is written; in the run's direction, or in the one that it takes with this step."""
    return Opened(
        run_id=run.pk,
        index=index,
        direction=direction or run.direction,
        attempt=run.attempt,
        try_number=try_number,
        name=step.name,
        worker=leases.WORKER,
        step_key=key_of(run, index, try_number, direction),
        fencing_token=run.fencing_token,
    )


def close_record(alias: str, run: WorkflowRun, record: Record, state: str, **values: Any) -> None:
    """End a record; inside a fenced transaction."""
    checkpoints.close_step(connections[alias], record.step_key, state, values)
    record.state = state
    tell_end(alias, run, record, error=values.get("error"))


def tell_end(alias: str, run: WorkflowRun, record: Record, **data: Any) -> None:
    """Tell of a record that has ended."""
    tell(alias, run, _KINDS.get(record.state, "step.done"), record, **data)


_KINDS: dict[str, str] = {
    StepState.DONE: "step.done",
    StepState.SKIPPED: "step.done",
    StepState.FORCED: "step.done",
    StepState.FAILED: "step.failed",
    StepState.UNDONE: "step.undone",
    StepState.UNDO_FAILED: "step.failed",
    StepState.CANCELLED: "step.failed",
}


def tell(alias: str, run: WorkflowRun, kind: str, record: Record | None = None, **data: Any) -> None:
    """Append an event about `run`, with the step that it is about."""
    events.append_told(alias, told(run, kind, record, **data))


def told(run: WorkflowRun, kind: str, record: Record | None = None, **data: Any) -> events.Told:
    """The same before it is appended."""
    if record is not None:
        data |= {"step": record.name, "index": record.index, "attempt": record.attempt, "host": record.host}
    return events.Told(events.about_run(run), kind, {key: value for key, value in data.items() if value})


def describe(error: Exception, step: Step, run: WorkflowRun) -> dict[str, Any]:
    """An error as JSON. Only our own errors speak: the text of others may hold paths, addresses or secrets."""
    if isinstance(error, NovellaError):
        message = error.message
    else:
        log.error("step failed: run=%s step=%s", run.uuid, step.name, exc_info=error)
        message = type(error).__name__
    return {
        "class": type(error).__name__,
        "message": message,
        "step": step.name,
        "attempt": run.attempt,
        "is_reschedulable": bool(getattr(error, "reschedulable", False)),
        **({"details": error.details} if isinstance(error, NovellaError) and error.details else {}),
    }
