"""What can only go forward fails again and again: the server says so, with the first cause, while it is tried on."""

from __future__ import annotations

from conductor.core.states import StepState, VmState
from conductor.journal.models import StepRecord
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import faults, instance_rows


class ShowStuck(Step):
    title = "Show that it is stuck"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        failed = StepRecord.objects.using(work.alias).filter(run_id=work.run.pk, state=StepState.FAILED)
        newest = failed.order_by("pk").last()
        first = failed.filter(name=newest.name).order_by("pk").first() if newest else None
        if first is None:
            return
        error = first.error or {}
        message = f"This fails again and again: {error.get('message', '')}"
        faults.add(work, message, f"{error.get('class')} at step {first.name}")
        instance_rows.update(work, vm_state=VmState.ERROR)
