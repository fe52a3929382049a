"""Create image of a server whose root disk is a volume: a snapshot of each volume, and an image that lists them."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.free_instance import FreeInstance
from conductor.workflows.steps.snapshot_volumes import (
    ActivateListImage,
    CopyIntoSnapshots,
    FindSnapshots,
    GiveSnapshotsUp,
)

CREATE_IMAGE_OF_VOLUMES = Flow(
    "create_image_of_volumes",
    version=1,
    steps=(
        FindSnapshots(),  # revert removes the image and the snapshots
        CopyIntoSnapshots(),  # revert removes what was copied
        ActivateListImage(),  # image and snapshots at once
        FreeInstance(),
    ),
    on_failure=GiveSnapshotsUp(),
    on_cancel=GiveSnapshotsUp(),
)
