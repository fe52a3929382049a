"""Power the guest off at its source and make its disks ready to be fetched."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus, TaskState
from conductor.rpc.messages import MigrateOut, RevertMigration
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class MigrateOutOfSource(RemoteStep):
    title = "Stop and hand out"
    event = "compute_resize_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_MIGRATING)
        move_rows.update(work, status=MigrationStatus.MIGRATING)

    def command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        return MigrateOut(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=move_rows.old_flavor(migration)),
            destination=migration.destination_host or "",
        )

    def revert_command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        return RevertMigration(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=move_rows.old_flavor(migration)),
            is_running=migration.was_running,
        )
