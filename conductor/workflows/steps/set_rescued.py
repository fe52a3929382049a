"""The guest runs from the rescue image: keep which, and what unrescue goes back to."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.set_state import SetState


class SetRescued(SetState):
    def __init__(self) -> None:
        super().__init__(VmState.RESCUED, PowerState.RUNNING, launches=True)

    def more(self, work: Work) -> dict[str, Any]:
        return {"previous_vm_state": instance_rows.read(work).vm_state, "rescue_image": work.inputs["image"]}


class SetUnrescued(SetState):
    def __init__(self) -> None:
        super().__init__(VmState.ACTIVE, PowerState.RUNNING)

    def more(self, work: Work) -> dict[str, Any]:
        return {"previous_vm_state": "", "rescue_image": None}
