"""Read a suspended guest's memory back and let it go on."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

RESUME_INSTANCE = Flow(
    "resume_instance",
    version=1,
    steps=(
        OnGuest("ResumeGuest"),  # no revert: half a resume cannot be put back, and may be asked for again
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)
