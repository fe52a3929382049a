"""Set the password of a guest's administrator."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

CHANGE_PASSWORD = Flow(
    "change_password",
    version=1,
    steps=(
        OnGuest("SetPassword"),  # no revert: nobody knows the old one
        SetState(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
