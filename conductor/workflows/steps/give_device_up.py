"""No attachment comes of it: the device's row goes, also where the run was cancelled before it began."""

from __future__ import annotations

from conductor.workflows.flow import Result, Work
from conductor.workflows.steps import devices
from conductor.workflows.steps.note_failure import NoteFailure


class GiveDeviceUp(NoteFailure):
    title = "Note failure"

    def apply(self, work: Work, result: Result) -> None:
        if not work.run.leftovers:  # what a host may still have must stay known
            devices.rows(work).delete()
        super().apply(work, result)
