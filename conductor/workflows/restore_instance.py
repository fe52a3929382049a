"""Take a deletion back, as long as the guest is still there."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_soft_deleted import SetRestored

_END = EndAction()

RESTORE_INSTANCE = Flow(
    "restore_instance",
    version=1,
    steps=(
        OnGuest("PowerOnGuest"),  # revert powers it off again
        SetRestored(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
