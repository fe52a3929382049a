"""Shut a guest down; one that does not listen is ended after a while."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

STOP_INSTANCE = Flow(
    "stop_instance",
    version=1,
    steps=(
        OnGuest("PowerOffGuest"),  # no revert: a guest that is off after all is reported, and was wanted off
        SetState(VmState.STOPPED, PowerState.SHUTDOWN),
    ),
    on_failure=_END,
    on_cancel=_END,
)
