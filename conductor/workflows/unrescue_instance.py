"""Start a rescued guest from its own disk again."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_rescued import SetUnrescued

_END = EndAction()

UNRESCUE_INSTANCE = Flow(
    "unrescue_instance",
    version=1,
    steps=(
        OnGuest("UnrescueGuest"),  # no revert: it stays rescued for its owner, who may ask again
        SetUnrescued(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
