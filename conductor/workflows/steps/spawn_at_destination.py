"""Build the guest anew on a living host: from its disks where they are shared, else from its image."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus, TaskState
from conductor.rpc.messages import DestroyInstance, SpawnInstance
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class SpawnAtDestination(RemoteStep):
    title = "Build at destination"
    event = "compute_rebuild_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.REBUILD_SPAWNING)
        move_rows.update(work, status=MigrationStatus.PRE_MIGRATING)

    def command(self, work: Work) -> Any:
        return SpawnInstance(
            **addressed(work, move_rows.read(work).destination_host or ""),
            guest=guest_of(work, instance_rows.read(work), admin_password=str(work.secrets.get("admin_password", ""))),
            is_running=bool(work.inputs.get("is_running", True)),
        )

    def revert_command(self, work: Work) -> Any:
        return DestroyInstance(**addressed(work, move_rows.read(work).destination_host or ""))
