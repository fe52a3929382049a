"""No image comes of it: what waits for data goes, also where the run was cancelled before it began."""

from __future__ import annotations

from conductor.workflows.flow import UNTIL_DONE, Result, Work
from conductor.workflows.steps.note_failure import NoteFailure
from conductor.workflows.steps.reserve_image import discard


class GiveImageUp(NoteFailure):
    title = "Note failure"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        discard(work, work.inputs["image_id"])
        return {}
