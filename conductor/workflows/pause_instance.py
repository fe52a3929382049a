"""Stop a guest's processors; its memory stays on the host."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

PAUSE_INSTANCE = Flow(
    "pause_instance",
    version=1,
    steps=(
        OnGuest("PauseGuest"),  # revert lets it go on
        SetState(VmState.PAUSED, PowerState.PAUSED),
    ),
    on_failure=_END,
    on_cancel=_END,
)
