"""Create volume: one with the data of an image, a snapshot or another volume."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.copy_into_volume import CopyIntoVolume
from conductor.workflows.steps.mark_volume import MarkVolumeAvailable, MarkVolumeFailed

CREATE_VOLUME = Flow(
    "create_volume",
    version=1,
    steps=(
        CopyIntoVolume(),  # revert removes what was copied
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),  # it stays, in error, and says why
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then
)
