"""Restore backup: a volume, new or there before, gets the data that a backup has."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.copy_from_backup import CopyFromBackup
from conductor.workflows.steps.mark_backup import MarkRestored, MarkRestoreFailed

RESTORE_BACKUP = Flow(
    "restore_backup",
    version=1,
    steps=(
        CopyFromBackup(),  # the old data stay until the copy is whole
        MarkRestored(),
    ),
    on_failure=MarkRestoreFailed(),
    on_cancel=MarkRestoreFailed(),
    is_retryable=False,  # the volume is in error then, and can be restored again
)
