"""Flows that copy data of volumes: create, snapshot, revert, back up, restore, reimage and upload."""

from __future__ import annotations

from conductor.core.request_spec import ImageSpec
from conductor.volume import backup_store, backups, messages, operations, refills, snapshots, store
from conductor.volume import store as volume_store
from conductor.volume.models import Backup, Snapshot, Volume
from conductor.volume.states import (
    AVAILABLE,
    BACKING_UP,
    CREATING,
    DOWNLOADING,
    ERROR,
    RESTORING_BACKUP,
    REVERTING,
    UPLOADING,
)
from conductor.workflows.flow import UNTIL_DONE, Flow, Result, RetryPolicy, Step, StepContext
from conductor.workflows.steps import volume_data
from conductor.workflows.steps.images import ActivateImage, discard


class CopyFromBackup(Step):
    """Copies the backup's blocks beside the old data, checks their digests, and replaces the data when complete.

    No revert: the old data stay until then.
    """

    title = "Restore data"

    def execute(self, work: StepContext) -> Result:
        row = volume_data.existing_backup(work.inputs["backup_id"])
        volume = volume_data.existing(work.inputs["volume_id"])
        backup_store.restore(row.data_uuid, volume.uuid, volume.size_gb)
        return {}


class CopyFromSnapshot(Step):
    """Copies the snapshot's data beside the old data, and replaces these when complete.

    No revert: the old data stay until then.
    """

    title = "Restore data"
    retry = RetryPolicy(max_attempts=3)

    def execute(self, work: StepContext) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        store.go_back(volume.uuid, volume.size_gb, work.inputs["snapshot_id"])
        return {}


class CopyIntoBackup(Step):
    """Stores every non-empty block by its digest; an incremental backup stores those that its parent lacks.

    A finished backup is not repeated; an interrupted one starts again.
    """

    title = "Copy data"

    def execute(self, work: StepContext) -> Result:
        row = volume_data.existing_backup(work.inputs["backup_id"])
        snapshot_id = work.inputs["snapshot_id"]
        source = store.snapshot_path_of(snapshot_id) if snapshot_id else store.path_of(work.inputs["volume_id"])
        added = backup_store.take(row.data_uuid, source, row.parent.data_uuid if row.parent else None)
        return {"blocks": added}

    def commit(self, work: StepContext, result: Result) -> None:
        row = Backup.objects.filter(uuid=work.inputs["backup_id"]).first()
        if row is not None:
            backups.describe(row, object_count=result["blocks"])

    def revert(self, work: StepContext, result: Result) -> None:
        """Remove what was stored."""
        backup_store.remove(work.inputs["backup_id"])


class CopyIntoImage(Step):
    """Converts the volume's data to the image's format, and stores them.

    No revert: the copied data are removed with the image.
    """

    title = "Copy data into image"
    retry = RetryPolicy(max_attempts=2)

    def execute(self, work: StepContext) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        with volume_store.exported(volume.uuid, work.inputs["disk_format"]) as data:
            volume_data.store_as_image(work.inputs["image_id"], work.inputs["disk_format"], data)
        return {}


class CopyIntoSnapshot(Step):
    """Copies the volume's data into the snapshot.

    A finished copy is not repeated: the volume's later data were not requested.
    """

    title = "Copy data"

    def execute(self, work: StepContext) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        row = Snapshot.objects.filter(uuid=work.inputs["snapshot_id"]).first()
        if row is not None:
            store.take_snapshot(row.uuid, volume.uuid, max(row.size_gb, volume.size_gb))
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Remove the copied data."""
        store.remove_snapshot(work.inputs["snapshot_id"])


class CopyIntoVolume(Step):
    """Copies the data of the image, snapshot, volume or backup into the new volume.

    A finished copy is not repeated; an interrupted one starts again.
    """

    title = "Copy data"

    def execute(self, work: StepContext) -> Result:
        volume_data.fill(work.context, volume_data.existing(work.inputs["volume_id"]), work.inputs["image"])
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Remove the copied data."""
        store.remove(work.inputs["volume_id"])


class MarkBackupAvailable(Step):
    """Sets the backup to available, and returns the volume to its earlier status."""

    title = "Mark backup as available"

    def commit(self, work: StepContext, result: Result) -> None:
        backups.turn(work.inputs["backup_id"], (CREATING,), AVAILABLE, fail_reason=None)
        _release_backup_volume(work)


class MarkBackupFailed(Step):
    """Sets the backup to error with the reason, and returns the volume to its earlier status."""

    title = "Mark backup as failed"

    def commit(self, work: StepContext, result: Result) -> None:
        text = _reason(work)
        backups.turn(work.inputs["backup_id"], (CREATING,), ERROR, fail_reason=text[:255])
        _release_backup_volume(work)
        messages.create_message(work.context, messages.BACKUP_FAILED, "VOLUME_BACKUP", work.inputs["backup_id"], text)


class MarkRestored(Step):
    """Sets volume and backup to available; the volume is bootable if the original was."""

    title = "Mark volume as available"

    def commit(self, work: StepContext, result: Result) -> None:
        backup_id, volume_id = work.inputs["backup_id"], work.inputs["volume_id"]
        row = Backup.objects.filter(uuid=backup_id).first()
        volume = Volume.objects.filter(uuid=volume_id).first()
        if row is not None and volume is not None:
            known = {name: row.volume_facts[name] for name in INHERITED if name in row.volume_facts}
            operations.describe(volume, **known)
        operations.turn(volume_id, (RESTORING_BACKUP,), AVAILABLE)
        backups.turn(backup_id, (backups.RESTORING,), AVAILABLE)


class MarkRestoreFailed(Step):
    """Sets the volume to `error_restoring` and the backup to available; an existing volume keeps its data."""

    title = "Mark volume as not restored"

    def commit(self, work: StepContext, result: Result) -> None:
        backup_id, volume_id = work.inputs["backup_id"], work.inputs["volume_id"]
        operations.turn(volume_id, (RESTORING_BACKUP,), "error_restoring")
        backups.turn(backup_id, (backups.RESTORING,), AVAILABLE)
        messages.create_message(work.context, messages.RESTORE_FAILED, "VOLUME_BACKUP", backup_id, _reason(work))


INHERITED = ("is_bootable", "image_metadata")


def _release_backup_volume(work: StepContext) -> None:
    """Release the backed-up volume; for a backup of a snapshot the volume was not reserved."""
    if work.inputs["snapshot_id"] is None:
        operations.turn(work.inputs["volume_id"], (BACKING_UP,), work.inputs["status_before"])


def _reason(work: StepContext) -> str:
    return str((work.run.error or {}).get("message") or "It was cancelled.")


class MarkSnapshotAvailable(Step):
    """Sets the snapshot to available."""

    title = "Mark snapshot as available"

    def commit(self, work: StepContext, result: Result) -> None:
        snapshots.turn(work.inputs["snapshot_id"], (CREATING,), AVAILABLE)


class MarkSnapshotFailed(Step):
    """Sets the snapshot to error; its owner reads the reason, and deletes it."""

    title = "Mark snapshot as failed"

    def commit(self, work: StepContext, result: Result) -> None:
        snapshot_id = work.inputs["snapshot_id"]
        snapshots.turn(snapshot_id, (CREATING,), ERROR)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.create_message(work.context, messages.SNAPSHOT_FAILED, "VOLUME_SNAPSHOT", snapshot_id, text)


WORKED_ON = (CREATING, REVERTING, DOWNLOADING)


class MarkVolumeAvailable(Step):
    """Sets the volume to available, or to reserved where it was that before."""

    title = "Mark volume as available"

    def commit(self, work: StepContext, result: Result) -> None:
        operations.turn(work.inputs["volume_id"], WORKED_ON, work.inputs.get("status", AVAILABLE))


class MarkVolumeFailed(Step):
    """Sets the volume to error; its owner reads the reason, and deletes it."""

    title = "Mark volume as failed"

    def commit(self, work: StepContext, result: Result) -> None:
        volume_id = work.inputs["volume_id"]
        operations.turn(volume_id, WORKED_ON, ERROR)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.create_message(work.context, messages.COPY_FAILED, "VOLUME", volume_id, text)


class RefillVolume(Step):
    """Copies the image beside the old data, replaces these when complete, and stores the image's properties.

    An interrupted copy starts again.

    No revert: the old data stay until then.
    """

    title = "Rebuild volume"
    retry = RetryPolicy(max_attempts=3)

    def execute(self, work: StepContext) -> Result:
        image = ImageSpec(**work.inputs["image"])
        volume = volume_data.existing(work.inputs["volume_id"])
        path = volume_data.readable_file(work.context, volume, image)
        refills.refill(volume.uuid, volume.size_gb, path, image.disk_format)
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        volume = volume_data.existing(work.inputs["volume_id"])
        operations.describe(volume, image_metadata=work.inputs["image_metadata"], is_bootable=True)


class GiveVolumeBack(Step):
    """Returns the volume to its earlier status."""

    title = "Release volume"

    def commit(self, work: StepContext, result: Result) -> None:
        _release_uploaded_volume(work)


class GiveUploadUp(Step):
    """Discards the image and returns the volume to its earlier status; a message gives the reason."""

    title = "Discard image"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        discard(work, work.inputs["image_id"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        _release_uploaded_volume(work)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.create_message(work.context, messages.UPLOAD_FAILED, "VOLUME", work.inputs["volume_id"], text)


def _release_uploaded_volume(work: StepContext) -> None:
    operations.turn(work.inputs["volume_id"], (UPLOADING,), work.inputs["status_before"])


CREATE_VOLUME = Flow(
    "create_volume",
    version=1,
    steps=(
        CopyIntoVolume(),  # revert removes what was copied
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),  # it stays, in error, with the reason
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then
)


CREATE_SNAPSHOT = Flow(
    "create_snapshot",
    version=1,
    steps=(
        CopyIntoSnapshot(),  # revert removes what was copied
        MarkSnapshotAvailable(),
    ),
    on_failure=MarkSnapshotFailed(),  # it stays, in error, with the reason
    on_cancel=MarkSnapshotFailed(),
    is_retryable=False,  # the snapshot is in error then
)


REVERT_VOLUME = Flow(
    "revert_volume",
    version=1,
    steps=(
        CopyFromSnapshot(),  # the old data stay until the copy is complete
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then
)


BACKUP_VOLUME = Flow(
    "backup_volume",
    version=1,
    steps=(
        CopyIntoBackup(),  # revert removes what was copied
        MarkBackupAvailable(),
    ),
    on_failure=MarkBackupFailed(),  # it stays, in error, with the reason; the volume is as before
    on_cancel=MarkBackupFailed(),
    is_retryable=False,  # the backup is in error then
)


RESTORE_BACKUP = Flow(
    "restore_backup",
    version=1,
    steps=(
        CopyFromBackup(),  # the old data stay until the copy is complete
        MarkRestored(),
    ),
    on_failure=MarkRestoreFailed(),
    on_cancel=MarkRestoreFailed(),
    is_retryable=False,  # the volume is in error then, and can be restored again
)


REIMAGE_VOLUME = Flow(
    "reimage_volume",
    version=1,
    steps=(
        RefillVolume(),  # the old data stay until the new ones are complete
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then, and can be reimaged again
)


UPLOAD_VOLUME = Flow(
    "upload_volume",
    version=1,
    steps=(
        CopyIntoImage(),
        ActivateImage(),
        GiveVolumeBack(),
    ),
    on_failure=GiveUploadUp(),  # deletes the image, with or without data
    on_cancel=GiveUploadUp(),
    is_retryable=False,  # the image is deleted then
)
