"""What a backup and its volume are when a workflow of theirs has ended."""

from __future__ import annotations

from conductor.volume import backups, messages, operations
from conductor.volume.models import Backup, Volume
from conductor.volume.states import AVAILABLE, BACKING_UP, CREATING, ERROR, RESTORING_BACKUP
from conductor.workflows.flow import Result, Step, Work


class MarkBackupAvailable(Step):
    """The volume is what it was before."""

    title = "Mark backup as available"

    def apply(self, work: Work, result: Result) -> None:
        backups.turn(work.inputs["backup_id"], (CREATING,), AVAILABLE, fail_reason=None)
        _give_back(work)


class MarkBackupFailed(Step):
    """The backup stays, in error: its owner reads why, and deletes it."""

    title = "Mark backup as failed"

    def apply(self, work: Work, result: Result) -> None:
        text = _reason(work)
        backups.turn(work.inputs["backup_id"], (CREATING,), ERROR, fail_reason=text[:255])
        _give_back(work)
        messages.tell(work.context, messages.BACKUP_FAILED, "VOLUME_BACKUP", work.inputs["backup_id"], text)


class MarkRestored(Step):
    """The volume boots if the one boots whose data it has now, and remembers the same image."""

    title = "Mark volume as available"

    def apply(self, work: Work, result: Result) -> None:
        backup_id, volume_id = work.inputs["backup_id"], work.inputs["volume_id"]
        row = Backup.objects.filter(uuid=backup_id).first()
        volume = Volume.objects.filter(uuid=volume_id).first()
        if row is not None and volume is not None:
            known = {name: row.volume_facts[name] for name in INHERITED if name in row.volume_facts}
            operations.describe(volume, **known)
        operations.turn(volume_id, (RESTORING_BACKUP,), AVAILABLE)
        backups.turn(backup_id, (backups.RESTORING,), AVAILABLE)


class MarkRestoreFailed(Step):
    """The backup is as good as before. A volume that was there has the data that it had."""

    title = "Mark volume as not restored"

    def apply(self, work: Work, result: Result) -> None:
        backup_id, volume_id = work.inputs["backup_id"], work.inputs["volume_id"]
        operations.turn(volume_id, (RESTORING_BACKUP,), "error_restoring")
        backups.turn(backup_id, (backups.RESTORING,), AVAILABLE)
        messages.tell(work.context, messages.RESTORE_FAILED, "VOLUME_BACKUP", backup_id, _reason(work))


INHERITED = ("is_bootable", "image_metadata")


def _give_back(work: Work) -> None:
    """A snapshot's volume was never taken."""
    if work.inputs["snapshot_id"] is None:
        operations.turn(work.inputs["volume_id"], (BACKING_UP,), work.inputs["status_before"])


def _reason(work: Work) -> str:
    return str((work.run.error or {}).get("message") or "It was cancelled.")
