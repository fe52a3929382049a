"""Create image: the server's disk as an image to boot others from. The server goes on as it is."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.activate_image import ActivateImage
from conductor.workflows.steps.free_instance import FreeInstance
from conductor.workflows.steps.give_image_up import GiveImageUp
from conductor.workflows.steps.reserve_image import ReserveImage
from conductor.workflows.steps.snapshot_on_host import SnapshotOnHost

CREATE_IMAGE = Flow(
    "create_image",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it and whatever data it got
        SnapshotOnHost(),  # one message to the host, the run parks
        ActivateImage(),  # takes over what the host stored
        FreeInstance(),
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
)
