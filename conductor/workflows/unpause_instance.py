"""Let a paused guest go on."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

UNPAUSE_INSTANCE = Flow(
    "unpause_instance",
    version=1,
    steps=(
        OnGuest("UnpauseGuest"),  # revert pauses it again
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)
