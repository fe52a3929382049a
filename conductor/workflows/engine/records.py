"""Records of a run's steps before they are written, and the events and errors stored about them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import connections

from conductor import events
from conductor.core import messages
from conductor.core.errors import NovellaError
from conductor.core.states import StepState
from conductor.journal import statements
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.workflows.engine import leases
from conductor.workflows.flow import Step

log = logging.getLogger(__name__)

OPEN_STATES = (StepState.RUNNING, StepState.WAITING)


@dataclass(slots=True)
class OpenRecord:
    """A record of a step that this worker has begun, lighter than a model object."""

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


Record = StepRecord | OpenRecord


def key_of(run: WorkflowRun, index: int, try_number: int, direction: str = "") -> str:
    """Return the idempotency key of one attempt of one step. It is the same after a crash, and another for each
    retry.
    """
    return f"{run.uuid}:{direction or run.direction}:{index}:{run.attempt}:{try_number}"


def current(alias: str, run: WorkflowRun, index: int) -> StepRecord | None:
    """Return the newest record of the step at `index` in the run's direction and attempt."""
    return statements.NEWEST_RECORDS.find(connections[alias], run.pk, run.direction, index, run.attempt)


def open_record(run: WorkflowRun, step: Step, index: int, last: StepRecord | None) -> Record:
    """Return the open record of a step: `last` if a dead owner left it open, else a new one that is not yet written."""
    if last is not None and last.state in OPEN_STATES:
        return last
    return new_record(run, step, index, last.try_number + 1 if last else 1)


def new_record(run: WorkflowRun, step: Step, index: int, try_number: int, direction: str = "") -> OpenRecord:
    """Return a new record of a step, not yet written, in the run's direction or in `direction`."""
    return OpenRecord(
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


_KINDS: dict[str, str] = {
    StepState.DONE: "step.done",
    StepState.SKIPPED: "step.done",
    StepState.FORCED: "step.done",
    StepState.FAILED: "step.failed",
    StepState.UNDONE: "step.undone",
    StepState.UNDO_FAILED: "step.failed",
    StepState.CANCELLED: "step.failed",
}


def kind_of_end(state: str) -> str:
    """Return the kind of the event for a step that has ended in `state`."""
    return _KINDS.get(state, "step.done")


def event_of(run: WorkflowRun, kind: str, record: Record | None = None, **data: Any) -> events.NewEvent:
    """Return an event about `run` and a step, before it is appended."""
    if record is not None:
        data |= {"step": record.name, "index": record.index, "attempt": record.attempt, "host": record.host}
    return events.NewEvent(events.about_run(run), kind, {key: value for key, value in data.items() if value})


def emit(alias: str, run: WorkflowRun, kind: str, record: Record | None = None, **data: Any) -> None:
    """Append an event about `run` to the log, inside the transaction of the change."""
    events.append_event(alias, event_of(run, kind, record, **data))


def describe(error: Exception, step: Step, run: WorkflowRun) -> dict[str, Any]:
    """Return an error as JSON.

    Only the product's own errors show their text. The text of others may hold paths, addresses or secrets.
    """
    if isinstance(error, NovellaError):
        text = error.message
    else:
        log.error("step failed: run=%s step=%s", run.uuid, step.name, exc_info=error)
        text = type(error).__name__
    return {
        "class": type(error).__name__,
        **messages.fields(text),
        "step": step.name,
        "attempt": run.attempt,
        "is_reschedulable": bool(getattr(error, "reschedulable", False)),
        **({"details": error.details} if isinstance(error, NovellaError) and error.details else {}),
    }
