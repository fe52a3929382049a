"""The instance is back where it was, in its old size: say so."""

from __future__ import annotations

from conductor.core.states import MigrationStatus
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MarkReverted(Step):
    title = "Mark as reverted"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        instance_rows.update(
            work,
            host=migration.source_host,
            node=migration.source_node,
            availability_zone=migration.details.get("availability_zone", instance.availability_zone),
            flavor=migration.old_flavor,
            vm_state=instance.previous_vm_state,
            previous_vm_state="",
            power_state=move_rows.power_after(migration),
            task_state=None,
        )
        move_rows.update(work, status=MigrationStatus.REVERTED)
