"""The new size stays: say so."""

from __future__ import annotations

from conductor.core.states import MigrationStatus, PowerState, VmState
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MarkConfirmed(Step):
    title = "Confirm"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        is_off = instance_rows.read(work).power_state == PowerState.SHUTDOWN
        vm_state = VmState.STOPPED if is_off else VmState.ACTIVE
        instance_rows.update(work, vm_state=vm_state, previous_vm_state="", task_state=None)
        move_rows.update(work, status=MigrationStatus.CONFIRMED)
