"""Start a guest that is off."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

START_INSTANCE = Flow(
    "start_instance",
    version=1,
    steps=(
        OnGuest("PowerOnGuest"),  # one message to the host, the run parks; revert powers it off again
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)
