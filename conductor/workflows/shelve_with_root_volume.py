"""Shelve a server whose root disk is a volume: off, and its host given up. The volume keeps what an image would."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.mark_shelved import MarkShelved
from conductor.workflows.steps.stop_for_shelving import StopForShelving

SHELVE_WITH_ROOT_VOLUME = Flow(
    "shelve_with_root_volume",
    version=1,
    steps=(
        StopForShelving(),  # revert starts it again
        MarkShelved(),  # and opens offload_instance: nothing on the host is worth keeping
    ),
    on_failure=EndAction(),
    on_cancel=EndAction(),
)
