"""Build with volumes, in the cell: as any build, with the volumes filled before the guest starts."""

from __future__ import annotations

from django.conf import settings

from conductor.workflows.build_in_cell import BuildInCell
from conductor.workflows.steps.claim_destination import ClaimDestination
from conductor.workflows.steps.fill_volumes import FillVolumes
from conductor.workflows.steps.mark_active import MarkActive
from conductor.workflows.steps.mark_volumes_in_use import MarkVolumesInUse
from conductor.workflows.steps.mark_without_volumes import MarkWithoutVolumes
from conductor.workflows.steps.plug_networks import PlugNetworks
from conductor.workflows.steps.spawn_on_host import SpawnOnHost

BUILD_FROM_VOLUMES = BuildInCell(
    "build_from_volumes",
    version=1,
    steps=(
        ClaimDestination(),  # the scheduler's claim, later the next alternate's; revert frees it
        FillVolumes(),  # the launch has taken them; those made for the server get their data
        PlugNetworks(),  # ports get addresses and the host; revert gives them back
        SpawnOnHost(),  # one message to the host, the run parks; revert destroys the guest
        MarkVolumesInUse(),
        MarkActive(),
    ),
    on_failure=MarkWithoutVolumes(),  # gives the volumes back
    on_cancel=MarkWithoutVolumes(),
    is_retryable=False,  # the volumes have been given back
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
