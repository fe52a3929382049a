"""End a guest, define it anew and start it: the way out of whatever it hangs in."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

HARD_REBOOT_INSTANCE = Flow(
    "hard_reboot_instance",
    version=1,
    steps=(
        OnGuest("ResetGuest"),  # no revert: there is no state before it that anybody wants back
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)
