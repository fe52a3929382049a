"""Flows that boot a server from a rescue image, and return from it."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow, StepContext
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.instance_state import EndAction, SetState
from conductor.workflows.steps.on_guest import GuestCommandStep


class SetRescued(SetState):
    """Sets the server to rescued; stores the rescue image and the previous state."""

    def __init__(self) -> None:
        super().__init__(VmState.RESCUED, PowerState.RUNNING, launches=True)

    def more(self, work: StepContext) -> dict[str, Any]:
        return {"previous_vm_state": instance_rows.read(work).vm_state, "rescue_image": work.inputs["image"]}


class SetUnrescued(SetState):
    """Sets the server to active, and clears the rescue image."""

    def __init__(self) -> None:
        super().__init__(VmState.ACTIVE, PowerState.RUNNING)

    def more(self, work: StepContext) -> dict[str, Any]:
        return {"previous_vm_state": "", "rescue_image": None}


_RESCUE_END = EndAction(breaks_at="RescueGuest")

RESCUE_INSTANCE = Flow(
    "rescue_instance",
    version=1,
    steps=(
        GuestCommandStep("RescueGuest"),  # revert starts it from its own disk, or leaves it off as it was
        SetRescued(),
    ),
    on_failure=_RESCUE_END,
    on_cancel=_RESCUE_END,
)


_UNRESCUE_END = EndAction()

UNRESCUE_INSTANCE = Flow(
    "unrescue_instance",
    version=1,
    steps=(
        GuestCommandStep("UnrescueGuest"),  # no revert: it stays rescued for its owner, who may retry
        SetUnrescued(),
    ),
    on_failure=_UNRESCUE_END,
    on_cancel=_UNRESCUE_END,
)
