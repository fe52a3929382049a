"""Have a guest dump its memory, as its kernel was told to."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_state import SetState

_END = EndAction()

TRIGGER_CRASH_DUMP = Flow(
    "trigger_crash_dump",
    version=1,
    steps=(
        OnGuest("DumpGuest"),  # no revert: a dump cannot be taken back
        SetState(),  # what the guest does next, its host reports
    ),
    on_failure=_END,
    on_cancel=_END,
)
