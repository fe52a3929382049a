"""Keep the data of a server's volumes as snapshots that an image lists."""

from __future__ import annotations

from uuid import UUID

from conductor.core.errors import NotFound
from conductor.core.states import TaskState
from conductor.image import snapshots as images
from conductor.volume import snapshots, store
from conductor.volume.models import Snapshot
from conductor.volume.states import AVAILABLE, CREATING
from conductor.workflows.flow import UNTIL_DONE, Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows, volume_data
from conductor.workflows.steps.note_failure import NoteFailure


class FindSnapshots(Step):
    """The request reserved the image and the snapshots, in one transaction that counted the quota."""

    title = "Find the reserved snapshots"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        wanted = {entry["snapshot_id"] for entry in work.inputs["snapshots"]}
        if Snapshot.objects.filter(uuid__in=wanted).count() != len(wanted):
            raise NotFound("A snapshot that was reserved for the image is gone.")
        return {"image_id": work.inputs["image_id"]}

    def revert(self, work: Work, result: Result) -> None:
        discard(work)


class CopyIntoSnapshots(Step):
    """A copy that was finished before is not made again. The snapshots are taken one after the other."""

    title = "Copy the volumes"
    lane = "Cell conductor"
    event = "api_snapshot_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.IMAGE_UPLOADING)

    def execute(self, work: Work) -> Result:
        for entry in work.inputs["snapshots"]:
            row = Snapshot.objects.filter(uuid=entry["snapshot_id"]).first()
            if row is None:
                raise NotFound(f"Snapshot {entry['snapshot_id']} is gone.")
            store.take_snapshot(row.uuid, volume_data.existing(entry["volume_id"]).uuid, row.size_gb)
        return {}

    def revert(self, work: Work, result: Result) -> None:
        for entry in work.inputs["snapshots"]:
            store.remove_snapshot(entry["snapshot_id"])


class ActivateListImage(Step):
    """The image and its snapshots are ready in one transaction. No revert: that of the reservation removes both."""

    title = "Activate image"
    lane = "Cell conductor"
    retry = Retry(tries=3)

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            images.activate_without_data(work.inputs["image_id"])
            for entry in work.inputs["snapshots"]:
                snapshots.turn(entry["snapshot_id"], (CREATING,), AVAILABLE)
        return {}


class GiveSnapshotsUp(NoteFailure):
    """Without a whole image none of its snapshots stays, also where the run was cancelled before it began."""

    title = "Note failure"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        discard(work)
        return {}


def discard(work: Work) -> None:
    """Remove the image, and its snapshots with their data. Raises Invalid while a volume is made of one of them."""
    uuids = [UUID(entry["snapshot_id"]) for entry in work.inputs["snapshots"]]
    with work.fenced("default"):
        if not images.discard(work.inputs["image_id"]):
            return
        snapshots.begin_discarding(uuids, work.run.project_id, (CREATING, AVAILABLE))
    for uuid in uuids:
        snapshots.settle(uuid)
