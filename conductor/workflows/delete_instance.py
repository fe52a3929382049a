"""Delete: nothing is left on the host, on the network, in placement or under lock when the row says deleted."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.destroy_on_host import DestroyOnHost
from conductor.workflows.steps.forget_moves import ForgetAtSource
from conductor.workflows.steps.free_allocation import FreeAllocation
from conductor.workflows.steps.mark_deleted import MarkDeleted
from conductor.workflows.steps.release_volumes import ReleaseVolumes
from conductor.workflows.steps.remove_shelved_image import RemoveShelvedImage
from conductor.workflows.steps.show_stuck import ShowStuck
from conductor.workflows.steps.unplug_networks import UnplugNetworks

DELETE_INSTANCE = Flow(
    "delete_instance",
    version=1,
    steps=(
        ForgetAtSource(),  # what an unconfirmed move keeps at its source
        DestroyOnHost(),  # a silent host is told when it comes back
        UnplugNetworks(),
        FreeAllocation(),
        RemoveShelvedImage(),
        ReleaseVolumes(),  # those that are to go with the server go, the others are free again
        MarkDeleted(),
    ),
    on_stuck=ShowStuck(),
    cancellable_until=None,  # a delete goes forward until it is done
)
