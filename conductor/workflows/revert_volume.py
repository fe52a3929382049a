"""Revert volume: its data again as its newest snapshot has them."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.copy_from_snapshot import CopyFromSnapshot
from conductor.workflows.steps.mark_volume import MarkVolumeAvailable, MarkVolumeFailed

REVERT_VOLUME = Flow(
    "revert_volume",
    version=1,
    steps=(
        CopyFromSnapshot(),  # the old data stay until the copy is whole
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then
)
