"""Backup volume: a volume's data, or its snapshot's, kept where they outlive it."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.copy_into_backup import CopyIntoBackup
from conductor.workflows.steps.mark_backup import MarkBackupAvailable, MarkBackupFailed

BACKUP_VOLUME = Flow(
    "backup_volume",
    version=1,
    steps=(
        CopyIntoBackup(),  # revert removes what was copied
        MarkBackupAvailable(),
    ),
    on_failure=MarkBackupFailed(),  # it stays, in error, and says why; the volume goes on as it was
    on_cancel=MarkBackupFailed(),
    is_retryable=False,  # the backup is in error then
)
