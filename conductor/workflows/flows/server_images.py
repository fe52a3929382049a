"""Flows for images and backups of servers, also of servers whose root disk is a volume."""

from __future__ import annotations

from uuid import UUID

from conductor.core.errors import NotFound
from conductor.core.states import TaskState
from conductor.image import snapshots as images
from conductor.volume import image_snapshots, snapshots, store
from conductor.volume.models import Snapshot
from conductor.volume.states import AVAILABLE, CREATING
from conductor.workflows.flow import UNTIL_DONE, Flow, Result, RetryPolicy, Step, StepContext
from conductor.workflows.steps import instance_rows, volume_data
from conductor.workflows.steps.images import ActivateImage, GiveImageUp, ReserveImage, SnapshotOnHost, discard
from conductor.workflows.steps.instance_state import NoteFailure


class FindSnapshots(Step):
    """Checks that the image and the snapshots that the request reserved exist.

    It reserved them in one transaction, which checked the quota.

    No revert: GiveSnapshotsUp removes the image, its snapshots and their data together, or none of them.
    """

    title = "Find reserved snapshots"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        wanted = {entry["snapshot_id"] for entry in work.inputs["snapshots"]}
        if Snapshot.objects.filter(uuid__in=wanted).count() != len(wanted):
            raise NotFound("A snapshot that was reserved for the image is gone.")
        return {"image_id": work.inputs["image_id"]}


class CopyIntoSnapshots(Step):
    """Copies the data of each volume into its snapshot, one after the other.

    A finished copy is not repeated.
    """

    title = "Copy volumes"
    lane = "Cell conductor"
    event = "api_snapshot_instance"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.IMAGE_UPLOADING)

    def execute(self, work: StepContext) -> Result:
        for entry in work.inputs["snapshots"]:
            row = Snapshot.objects.filter(uuid=entry["snapshot_id"]).first()
            if row is None:
                raise NotFound(f"Snapshot {entry['snapshot_id']} is gone.")
            store.take_snapshot(row.uuid, volume_data.existing(entry["volume_id"]).uuid, row.size_gb)
        return {}


class ActivateListImage(Step):
    """Activates the image and its snapshots in one transaction; the image keeps their data from then on.

    No cancellation from here on: a volume may be created from the image at once.
    """

    title = "Activate image"
    lane = "Cell conductor"
    retry = RetryPolicy(max_attempts=3)

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            images.activate_without_data(work.inputs["image_id"])
            listed = [entry["snapshot_id"] for entry in work.inputs["snapshots"]]
            image_snapshots.keep(work.inputs["image_id"], work.run.project_id, listed)
            for snapshot_id in listed:
                snapshots.turn(snapshot_id, (CREATING,), AVAILABLE)
        return {}


class GiveSnapshotsUp(NoteFailure):
    """Removes the image with all its snapshots, and records the failure; also if the run was cancelled at once."""

    title = "Record failure"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        discard_with_snapshots(work)
        return {}


def discard_with_snapshots(work: StepContext) -> None:
    """Remove the image, and its snapshots with their data.

    Raises Invalid while a volume is created from one of them.
    """
    uuids = [UUID(entry["snapshot_id"]) for entry in work.inputs["snapshots"]]
    with work.fenced("default"):
        if not images.discard(work.inputs["image_id"]):
            return
        image_snapshots.release([work.inputs["image_id"]])
        snapshots.begin_discarding(uuids, work.run.project_id, (CREATING, AVAILABLE))
    for uuid in uuids:
        snapshots.settle(uuid)


class RotateBackups(Step):
    """Removes the oldest backups beyond the requested number; protected ones stay, and count.

    No revert: the backup is complete, and a deleted image cannot be restored.
    """

    title = "Rotate backups"
    lane = "Cell conductor"
    retry = RetryPolicy(max_attempts=5)

    def execute(self, work: StepContext) -> Result:
        old = images.backups_beyond(
            work.run.project_id, work.instance_uuid, work.inputs["backup_type"], work.inputs["rotation"]
        )
        removed = [image_id for image_id in old if discard(work, image_id)]
        return {"removed": removed, "kept": sorted(set(old) - set(removed))}


class FreeInstance(Step):
    """Clears the server's task state: the action has ended."""

    title = "Release server resources"
    lane = "Cell conductor"
    # No revert: it is the last step, and only records that the action has ended.

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, task_state=None)


CREATE_IMAGE = Flow(
    "create_image",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it with any data
        SnapshotOnHost(),  # one command to the host, the run suspends
        ActivateImage(),  # uses the data that the host stored
        FreeInstance(),
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
)


CREATE_BACKUP = Flow(
    "create_backup",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it with any data
        SnapshotOnHost(),  # one command to the host, the run suspends
        ActivateImage(),  # uses the data that the host stored
        RotateBackups(),  # only now: no old backup is deleted before the new one is complete
        FreeInstance(),
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
    cancellable_until="RotateBackups",
)


CREATE_IMAGE_OF_VOLUMES = Flow(
    "create_image_of_volumes",
    version=1,
    steps=(
        FindSnapshots(),
        CopyIntoSnapshots(),
        ActivateListImage(),  # image and snapshots at once
        FreeInstance(),
    ),
    on_failure=GiveSnapshotsUp(),  # removes image, snapshots and data
    on_cancel=GiveSnapshotsUp(),
    cancellable_until="ActivateListImage",
)
