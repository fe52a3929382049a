"""What a snapshot is when its workflow has ended: there, or in error with a message that says why."""

from __future__ import annotations

from conductor.volume import messages, snapshots
from conductor.volume.states import AVAILABLE, CREATING, ERROR
from conductor.workflows.flow import Result, Step, Work


class MarkSnapshotAvailable(Step):
    title = "Mark snapshot as available"

    def apply(self, work: Work, result: Result) -> None:
        snapshots.turn(work.inputs["snapshot_id"], (CREATING,), AVAILABLE)


class MarkSnapshotFailed(Step):
    """The snapshot stays, in error: its owner reads why, and deletes it."""

    title = "Mark snapshot as failed"

    def apply(self, work: Work, result: Result) -> None:
        snapshot_id = work.inputs["snapshot_id"]
        snapshots.turn(snapshot_id, (CREATING,), ERROR)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.tell(work.context, messages.SNAPSHOT_FAILED, "VOLUME_SNAPSHOT", snapshot_id, text)
