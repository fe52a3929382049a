"""The host has done it: say so, and that nothing is under way any more."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class SetState(Step):
    """Ends an action. `launches` renews the time of launch; what the run's host said is true until its next report."""

    title = "Set state"
    lane = "Cell conductor"

    def __init__(self, vm_state: VmState | None = None, power: PowerState | None = None, *, launches: bool = False):
        self.vm_state = vm_state
        self.power = power
        self.launches = launches

    def apply(self, work: Work, result: Result) -> None:
        values: dict[str, Any] = {"task_state": None}
        if self.vm_state is not None:
            values["vm_state"] = self.vm_state
        if self.power is not None:
            values["power_state"] = self.power
        if self.launches:
            values["launched_at"] = database_now()
        instance_rows.update(work, **values | self.more(work))

    def more(self, work: Work) -> dict[str, Any]:
        """Further columns of the instance that change with its state."""
        return {}
