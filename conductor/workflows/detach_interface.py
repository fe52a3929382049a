"""Detach interface: the guest lets a port go, and then it is free or gone."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.note_failure import NoteFailure
from conductor.workflows.steps.unplug_on_host import UnplugOnHost
from conductor.workflows.steps.unplug_port import UnplugPort

DETACH_INTERFACE = Flow(
    "detach_interface",
    version=1,
    steps=(
        UnplugOnHost(),  # one message to the host, the run parks; revert gives it back to the guest
        UnplugPort(),
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="UnplugPort",
)
