"""Failed rollbacks that continue by themselves: only those whose one failure is a step that its host did not undo."""

from __future__ import annotations

from typing import Any

from conductor.core.states import RunState, StepState
from conductor.services.operations.reconciliation import journal_facts
from tests import factories
from tests.integration.flows.moving import CELL

KEPT = {"class": "KeptByHost", "message": "Volume v stays reserved until host sim-1 lets it go."}
BROKEN = {"class": "RuntimeError", "message": "RuntimeError"}


def left_run(caller: Any, *undos: tuple[int, StepState, dict[str, str] | None], **values: Any) -> str:
    """Return a run that ended with uncompensated effects, and the records of its rollback."""
    ended = {"state": RunState.FAILED_NOT_CLEAN, "owner": None, "uncompensated": ["left"]}
    run = factories.run(caller, CELL, **{**ended, **values})
    for number, (index, state, error) in enumerate(undos):
        factories.step(run, index, 5, 4, direction="undo", try_number=number + 1, state=state, error=error)
    return str(run.uuid)


def held_up(**which: Any) -> set[str]:
    return {run.uuid for run in journal_facts.held_up(CELL, **which)}


def test_a_step_that_its_host_kept_is_needed(ana: Any) -> None:
    kept = left_run(ana, (1, StepState.UNDONE, None), (0, StepState.UNDO_FAILED, KEPT))
    also = left_run(ana, (0, StepState.UNDO_FAILED, BROKEN), (0, StepState.UNDO_FAILED, KEPT))
    left_run(ana)  # an operator has forced its end before anything was undone
    left_run(ana, (1, StepState.UNDONE, None))
    left_run(ana, (1, StepState.UNDO_FAILED, BROKEN), (0, StepState.UNDO_FAILED, KEPT))
    left_run(ana, (0, StepState.UNDO_FAILED, KEPT), (0, StepState.FORCED, None))
    left_run(ana, (0, StepState.UNDO_FAILED, KEPT), attempt=2)
    left_run(ana, (0, StepState.UNDO_FAILED, KEPT), state=RunState.FAILED_UNDONE)
    assert held_up() == {kept, also}
    assert held_up(uuid=kept) == {kept}
