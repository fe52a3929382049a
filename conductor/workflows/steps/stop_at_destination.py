"""Power the guest off where it is, before it comes back elsewhere: it never runs twice."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus
from conductor.rpc.messages import PowerOff, PowerOn
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class StopAtDestination(RemoteStep):
    title = "Stop at destination"
    event = "compute_revert_resize"

    def apply_start(self, work: Work) -> None:
        move_rows.update(work, status=MigrationStatus.REVERTING)

    def command(self, work: Work) -> Any:
        return PowerOff(**addressed(work, move_rows.read(work).destination_host or ""))

    def revert_command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        if not migration.was_running:
            return None
        guest = guest_of(work, instance_rows.read(work))
        return PowerOn(**addressed(work, migration.destination_host or ""), guest=guest)
