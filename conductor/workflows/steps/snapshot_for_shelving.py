"""Keep the guest's root disk as an image, so that the host can let it go."""

from __future__ import annotations

from conductor.core.states import TaskState
from conductor.workflows.steps.snapshot_on_host import SnapshotOnHost


class SnapshotForShelving(SnapshotOnHost):
    """No revert: the guest stays as it is, and what was copied goes with the image."""

    event = "compute_shelve_instance"
    shows = TaskState.SHELVING_IMAGE_UPLOADING
