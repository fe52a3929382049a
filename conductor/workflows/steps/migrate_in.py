"""Build the guest at its destination from the disks that the source made ready."""

from __future__ import annotations

from typing import Any

from conductor.core.states import TaskState
from conductor.rpc.messages import DestroyInstance, MigrateIn
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.migrate_out import MigrateOutOfSource
from conductor.workflows.steps.on_host import addressed, guest_of


class MigrateInAtDestination(RemoteStep):
    title = "Build at destination"
    event = "compute_finish_resize"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_FINISH)

    def command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        return MigrateIn(
            **addressed(work, migration.destination_host or ""),
            guest=guest_of(work, instance_rows.read(work), flavor=move_rows.new_flavor(migration)),
            disks=dict(work.result_of(MigrateOutOfSource)),
            is_running=migration.was_running,
        )

    def revert_command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        if move_rows.stays_on_host(migration):  # what comes back there replaces what was built
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))
