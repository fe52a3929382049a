"""What a volume is when its workflow has ended: free to use, or in error with a message that says why."""

from __future__ import annotations

from conductor.volume import messages, operations
from conductor.volume.states import AVAILABLE, CREATING, DOWNLOADING, ERROR, REVERTING
from conductor.workflows.flow import Result, Step, Work

WORKED_ON = (CREATING, REVERTING, DOWNLOADING)


class MarkVolumeAvailable(Step):
    """Or reserved, where it was that before."""

    title = "Mark volume as available"

    def apply(self, work: Work, result: Result) -> None:
        operations.turn(work.inputs["volume_id"], WORKED_ON, work.inputs.get("status", AVAILABLE))


class MarkVolumeFailed(Step):
    """The volume stays, in error: its owner reads why, and deletes it."""

    title = "Mark volume as failed"

    def apply(self, work: Work, result: Result) -> None:
        volume_id = work.inputs["volume_id"]
        operations.turn(volume_id, WORKED_ON, ERROR)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.tell(work.context, messages.COPY_FAILED, "VOLUME", volume_id, text)
