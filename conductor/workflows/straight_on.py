"""The usual ways on: a step is done, or has failed for good, nothing has come between, and another or the end follows.

Such a passage is rows and nothing else, no code of a step runs in its transaction, so it may share a commit with the
passages of other runs. Whatever is not usual goes the long way, through Turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from conductor import events
from conductor.core.states import RunState, StepState
from conductor.journal import checkpoints, foreign_locks, passages
from conductor.journal.models import WorkflowRun
from conductor.journal.passages import Passage
from conductor.workflows import records
from conductor.workflows.flow import Flow, RemoteStep, Result, Step


def go_on(alias: str, run: WorkflowRun, flow: Flow, done: records.Record, result: Result) -> records.Record | None:
    """Close the record `done` and open the next step's, in one commit; the new record.

    None when that is not all there is to do, or when the run is no longer as its owner knows it: nothing is written.
    """
    if run.direction == "end":  # the flow's last word: none of its steps follows
        return None
    is_undo = run.direction == "undo"
    position = _undone(flow, run.position - 1) if is_undo else _done(flow, run.position + 1)
    if position is None or run.is_cancel_requested or run.orders:  # asked by somebody, or ordered by an operator
        return None
    index = position - 1 if is_undo else position
    opened = records.new_record(run, flow.steps[index], index, try_number=1)
    variables = _variables(run, done.name, result)
    state = StepState.UNDONE if is_undo else StepState.DONE
    told = [
        records.told(run, "step.undone" if is_undo else "step.done", done),
        records.told(run, "step.started", opened),
    ]
    passage = Passage(
        way=passages.ON,
        move=(position, json.dumps(variables), *_held(run)),
        close=(state.value, json.dumps(dict(result)), done.step_key),
        step=checkpoints.step_row(opened),
        events=[event.row() for event in told],
    )
    if not _is_written(alias, passage, opened, told):
        return None
    run.position, run.variables = position, variables
    return opened


def end(alias: str, run: WorkflowRun, flow: Flow, done: records.Record, result: Result) -> bool:
    """Close the record `done` of the last step and end the run, in one commit.

    False when that is not all there is to do, as above, or when somebody waits for a lock: nothing is written.
    """
    position = run.position + 1
    if run.direction != "do" or position != len(flow.steps) or _has(flow.steps[run.position], "apply"):
        return False
    if run.is_cancel_requested or run.orders or not passages.share_commits(alias):
        return False
    if run.secrets or foreign_locks.foreign(alias, run.resources or ()):  # which are to go as well
        return False
    variables = _variables(run, done.name, result)
    told = [records.told(run, "step.done", done), records.told(run, "run.ended", state=RunState.DONE)]
    passage = Passage(
        way=passages.END,
        move=(position, json.dumps(variables), run.pk, run.fencing_token),
        close=(StepState.DONE.value, json.dumps(dict(result)), done.step_key),
        step=None,
        events=[event.row() for event in told],
        free=(run.pk,),
    )
    if not passages.write(alias, passage):
        return False
    events.announce(alias, told, passage.numbers)
    run.position, run.variables, run.state = position, variables, RunState.DONE
    return True


def turn_back(
    alias: str, run: WorkflowRun, flow: Flow, failed: records.Record, error: dict[str, Any]
) -> records.Record | None:
    """Close the record `failed` and open the undo of the last step that has one, in one commit; the new record.

    None, as above. The step that failed is undone too: it may have done a part.
    """
    position = _to_undo(flow, run.position + 1)
    if run.direction != "do" or not position or run.is_cancel_requested or run.orders:
        return None
    if flow.steps[run.position].retry.allows(failed.try_number):
        return None
    first = run.error or error
    index = position - 1
    opened = records.new_record(run, flow.steps[index], index, try_number=1, direction="undo")
    told = [
        records.told(run, "step.failed", failed, error=error),
        records.told(run, "run.undoing", error=error),
        records.told(run, "step.started", opened),
    ]
    passage = Passage(
        way=passages.BACK,
        move=(position, json.dumps(first), *_held(run)),
        close=(StepState.FAILED.value, json.dumps(error), failed.step_key),
        step=checkpoints.step_row(opened),
        events=[event.row() for event in told],
    )
    if not _is_written(alias, passage, opened, told):
        return None
    run.direction, run.position, run.error, run.state = "undo", position, first, RunState.UNDOING
    return opened


def _held(run: WorkflowRun) -> tuple[Any, ...]:
    """What the end of each way's statement names: the run that is kept, and its fence."""
    return settings.NOVELLA_LEASE_SECONDS, run.pk, run.fencing_token


def _is_written(alias: str, passage: Passage, opened: records.Record, told: Sequence[events.Told]) -> bool:
    """Write and tell; False, and nothing is written, when the run is not as its owner knows it."""
    if not passages.write(alias, passage):
        return False
    opened.pk = passage.step_id
    events.announce(alias, told, passage.numbers)
    return True


def _done(flow: Flow, position: int) -> int | None:
    """`position` when the step before it leaves nothing to apply and the step there is begun without a word."""
    if position == len(flow.steps) or _has(flow.steps[position - 1], "apply"):
        return None
    following = flow.steps[position]
    is_sent_at_once = isinstance(following, RemoteStep) and not flow.is_forward_only
    has_code = any(_has(following, name) for name in ("is_local_in", "apply_start"))
    return None if following.is_local or is_sent_at_once or has_code else position


def _undone(flow: Flow, position: int) -> int | None:
    """Where the undo goes on when the step at `position` is undone; None at its end."""
    return None if _has(flow.steps[position], "apply_revert") else _to_undo(flow, position) or None


def _to_undo(flow: Flow, position: int) -> int:
    """`position`, without the steps before it that need no undo."""
    while position and not flow.steps[position - 1].has_revert:
        position -= 1
    return position


def _has(step: Step, method: str) -> bool:
    """Whether the step has code of its own there."""
    return getattr(type(step), method) is not getattr(Step, method)


def _variables(run: WorkflowRun, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    if run.direction == "undo":
        return {key: value for key, value in run.variables.items() if key != name}
    return {**run.variables, name: dict(result)}
