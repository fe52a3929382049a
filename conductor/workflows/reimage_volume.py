"""Reimage volume: the data of an image instead of its own."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.mark_volume import MarkVolumeAvailable, MarkVolumeFailed
from conductor.workflows.steps.refill_volume import RefillVolume

REIMAGE_VOLUME = Flow(
    "reimage_volume",
    version=1,
    steps=(
        RefillVolume(),  # the old data stay until the new ones are whole
        MarkVolumeAvailable(),
    ),
    on_failure=MarkVolumeFailed(),
    on_cancel=MarkVolumeFailed(),
    is_retryable=False,  # the volume is in error then, and can be asked for again
)
