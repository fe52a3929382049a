"""Create snapshot: a volume's data, kept as they are."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.copy_into_snapshot import CopyIntoSnapshot
from conductor.workflows.steps.mark_snapshot import MarkSnapshotAvailable, MarkSnapshotFailed

CREATE_SNAPSHOT = Flow(
    "create_snapshot",
    version=1,
    steps=(
        CopyIntoSnapshot(),  # revert removes what was copied
        MarkSnapshotAvailable(),
    ),
    on_failure=MarkSnapshotFailed(),  # it stays, in error, and says why
    on_cancel=MarkSnapshotFailed(),
    is_retryable=False,  # the snapshot is in error then
)
