"""Create backup: an image as `create_image` makes it, and the oldest ones go."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.activate_image import ActivateImage
from conductor.workflows.steps.free_instance import FreeInstance
from conductor.workflows.steps.give_image_up import GiveImageUp
from conductor.workflows.steps.reserve_image import ReserveImage
from conductor.workflows.steps.rotate_backups import RotateBackups
from conductor.workflows.steps.snapshot_on_host import SnapshotOnHost

CREATE_BACKUP = Flow(
    "create_backup",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it and whatever data it got
        SnapshotOnHost(),  # one message to the host, the run parks
        ActivateImage(),  # takes over what the host stored
        RotateBackups(),  # only now: no old backup goes before the new one is whole
        FreeInstance(),
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
    cancellable_until="RotateBackups",
)
