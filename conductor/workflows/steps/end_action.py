"""An action has failed or was cancelled, and is undone: nothing is under way any more, and the fault says why."""

from __future__ import annotations

from conductor.core.states import StepState, VmState
from conductor.journal.models import StepRecord
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import faults, instance_rows


class EndAction(Step):
    """The instance stays in the state that it had: that is what the guest is, whatever was tried.

    `breaks_at` names the step that may leave a guest that is neither the old nor the new one. Unless its host has
    undone it, the instance is in error from then on.
    """

    title = "End the action"
    lane = "Cell conductor"

    def __init__(self, breaks_at: str = "") -> None:
        self.breaks_at = breaks_at

    def apply(self, work: Work, result: Result) -> None:
        error = work.run.error or {}
        is_broken = self._is_broken(work)
        if is_broken or error.get("class") != "Cancelled":
            faults.keep_first_cause(work)
        instance_rows.update(work, task_state=None, **({"vm_state": VmState.ERROR} if is_broken else {}))

    def _is_broken(self, work: Work) -> bool:
        records = StepRecord.objects.using(work.alias).filter(run=work.run, name=self.breaks_at)
        if not self.breaks_at or not records.filter(direction="do").exists():
            return False
        undone = records.filter(direction="undo", state=StepState.UNDONE).exclude(host="")
        return not undone.exists()
