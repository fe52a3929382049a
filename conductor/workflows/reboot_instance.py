"""Ask a guest to reboot; one that does not listen is reset."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

REBOOT_INSTANCE = Flow(
    "reboot_instance",
    version=1,
    steps=(
        OnGuest("RebootGuest"),  # no revert: on or off, its host reports what the guest does
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)
