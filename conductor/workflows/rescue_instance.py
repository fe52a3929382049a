"""Start a guest from another image, with its own root disk as the second."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_rescued import SetRescued

_END = EndAction(breaks_at="RescueGuest")

RESCUE_INSTANCE = Flow(
    "rescue_instance",
    version=1,
    steps=(
        OnGuest("RescueGuest"),  # revert starts it from its own disk, or leaves it off as it was
        SetRescued(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
