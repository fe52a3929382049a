"""Detach volume: the guest lets a volume go, and then others may have it."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.begin_detaching import BeginDetaching
from conductor.workflows.steps.detach_on_host import DetachOnHost
from conductor.workflows.steps.note_failure import NoteFailure
from conductor.workflows.steps.release_volume import ReleaseVolume

DETACH_VOLUME = Flow(
    "detach_volume",
    version=1,
    steps=(
        BeginDetaching(),  # revert says that it is in use again
        DetachOnHost(),  # one message to the host, the run parks; revert gives it back to the guest
        ReleaseVolume(),
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="ReleaseVolume",
)
