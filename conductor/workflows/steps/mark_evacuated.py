"""The instance lives on its new host: say so. What its dead host may still have is destroyed when that is back."""

from __future__ import annotations

from conductor.core.states import MigrationStatus, PowerState, VmState
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MarkEvacuated(Step):
    title = "Mark as evacuated"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        chosen = move_rows.chosen(work)
        is_running = bool(work.inputs.get("is_running", True))
        instance_rows.update(
            work,
            host=chosen.host,
            node=chosen.node,
            availability_zone=chosen.availability_zone,
            vm_state=VmState.ACTIVE if is_running else VmState.STOPPED,
            power_state=PowerState.RUNNING if is_running else PowerState.SHUTDOWN,
            task_state=None,
        )
        move_rows.update(work, status=MigrationStatus.DONE)
