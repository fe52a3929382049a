"""Steps that store a server's disk as an image."""

from __future__ import annotations

from typing import Any

from conductor.core.states import TaskState
from conductor.image import snapshots
from conductor.rpc.messages import SnapshotInstance
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Result, RetryPolicy, Step, StepContext
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.instance_state import NoteFailure
from conductor.workflows.steps.on_host import addressed


class ReserveImage(Step):
    """Reserves the queued image of the request for the server's data.

    The request has created the image, unless its process died before: its uuid was chosen then.
    """

    title = "Reserve image"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            snapshots.reserve(work.inputs["image_id"], work.run.project_id, work.inputs["image"])
        return {"image_id": work.inputs["image_id"]}

    def revert(self, work: StepContext, result: Result) -> None:
        """Remove the image and its data."""
        discard(work, work.inputs["image_id"])


def discard(work: StepContext, image_id: str) -> bool:
    """Remove an image with its data; False for one that its owner protected."""
    with work.fenced("default"):
        is_gone = snapshots.discard(image_id)
    if is_gone:
        snapshots.drop_data(image_id)
    return is_gone


class ActivateImage(Step):
    """Activates the image with the format, size and digests of the stored data.

    No revert: a failed run removes the image, with or without data.
    """

    title = "Activate image"
    lane = "Cell conductor"
    retry = RetryPolicy(max_attempts=3)

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            return snapshots.activate(work.inputs["image_id"])


class GiveImageUp(NoteFailure):
    """Removes the image with its data, and records the failure."""

    title = "Record failure"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        discard(work, work.inputs["image_id"])
        return {}


class SnapshotOnHost(RemoteStep):
    """Has the host copy the root disk into the image store.

    No revert: the guest stays as it is, and the copied data are removed with the image.
    """

    title = "Copy disk"
    event = "compute_snapshot_instance"
    shows = TaskState.IMAGE_UPLOADING

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=self.shows)

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host or ""
        return SnapshotInstance(**addressed(work, host), image_id=work.inputs["image_id"])
