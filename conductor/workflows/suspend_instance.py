"""Write a guest's memory to the host's disk and free it."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

SUSPEND_INSTANCE = Flow(
    "suspend_instance",
    version=1,
    steps=(
        OnGuest("SuspendGuest"),  # revert resumes it
        SetState(VmState.SUSPENDED, PowerState.SHUTDOWN),  # its host has no such guest in memory
    ),
    on_failure=_END,
    on_cancel=_END,
)
