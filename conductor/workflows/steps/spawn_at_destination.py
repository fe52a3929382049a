"""Build the guest anew on a living host: from its disks where they are shared, else from its image."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus, TaskState
from conductor.rpc.messages import DestroyInstance, HandBackInstance, SpawnInstance, TakeOverInstance
from conductor.scheduler import move_specs
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of

TAKES_DISKS = "takes_disks"


class SpawnAtDestination(RemoteStep):
    title = "Build at destination"
    event = "compute_rebuild_instance"

    def apply_start(self, work: Work) -> None:
        """What is found of the disks now counts for the way back too: a destroy would take shared ones along."""
        migration = move_rows.read(work)
        found = {TAKES_DISKS: move_specs.leaves_disks(work.alias, migration)}
        instance_rows.update(work, task_state=TaskState.REBUILD_SPAWNING)
        move_rows.update(work, status=MigrationStatus.PRE_MIGRATING, details={**migration.details, **found})

    def command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        to = addressed(work, migration.destination_host or "")
        guest = guest_of(work, instance_rows.read(work), admin_password=str(work.secrets.get("admin_password", "")))
        is_running = bool(work.inputs.get("is_running", True))
        if migration.details.get(TAKES_DISKS):
            return TakeOverInstance(**to, guest=guest, source_host=migration.source_host, is_running=is_running)
        return SpawnInstance(**to, guest=guest, is_running=is_running)

    def revert_command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        to = addressed(work, migration.destination_host or "")
        if migration.details.get(TAKES_DISKS):
            return HandBackInstance(**to, source_host=migration.source_host)
        return DestroyInstance(**to)
