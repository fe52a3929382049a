"""Build, in the cell: plug, spawn on the chosen host, and take the next alternate when that fails."""

from __future__ import annotations

from django.conf import settings

from conductor.workflows.flow import Flow, Work
from conductor.workflows.steps.claim_destination import ClaimDestination, alternates_left
from conductor.workflows.steps.mark_active import MarkActive
from conductor.workflows.steps.mark_failed import MarkFailed
from conductor.workflows.steps.plug_networks import PlugNetworks
from conductor.workflows.steps.spawn_on_host import SpawnOnHost


class BuildInCell(Flow):
    def next_attempt(self, work: Work) -> bool:
        return bool(alternates_left(work))


BUILD_IN_CELL = BuildInCell(
    "build_in_cell",
    version=1,
    steps=(
        ClaimDestination(),  # the scheduler's claim, later the next alternate's; revert frees it
        PlugNetworks(),  # ports get addresses and the host; revert gives them back
        SpawnOnHost(),  # one message to the host, the run parks; revert destroys the guest
        MarkActive(),
    ),
    on_failure=MarkFailed(),
    on_cancel=MarkFailed(),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
