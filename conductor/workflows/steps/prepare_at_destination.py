"""Have the destination make room for a guest that comes while it runs."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus
from conductor.rpc.messages import CancelLiveMigration, PrepareLiveMigration
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class PrepareAtDestination(RemoteStep):
    title = "Prepare destination"
    event = "compute_pre_live_migration"

    def apply_start(self, work: Work) -> None:
        move_rows.update(work, status=MigrationStatus.PREPARING)

    def command(self, work: Work) -> Any:
        return PrepareLiveMigration(
            **addressed(work, move_rows.read(work).destination_host or ""),
            guest=guest_of(work, instance_rows.read(work)),
            is_block_migration=work.inputs.get("block_migration"),
        )

    def revert_command(self, work: Work) -> Any:
        return CancelLiveMigration(**addressed(work, move_rows.read(work).destination_host or ""))
