"""Shelve: off, with the disk kept as an image. The host goes on keeping the guest until it is offloaded."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.activate_image import ActivateImage
from conductor.workflows.steps.give_image_up import GiveImageUp
from conductor.workflows.steps.mark_shelved import MarkShelved
from conductor.workflows.steps.reserve_image import ReserveImage
from conductor.workflows.steps.snapshot_for_shelving import SnapshotForShelving
from conductor.workflows.steps.stop_for_shelving import StopForShelving

SHELVE_INSTANCE = Flow(
    "shelve_instance",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it and whatever data it got
        StopForShelving(),  # revert starts it again
        SnapshotForShelving(),  # one message to the host, the run parks
        ActivateImage(),  # takes over what the host stored
        MarkShelved(),  # and opens offload_instance where the host is given up at once
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
)
