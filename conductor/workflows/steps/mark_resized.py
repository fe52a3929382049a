"""The guest is at its destination in its new size: say so, and wait for a word whether it stays."""

from __future__ import annotations

from conductor.core.states import MigrationStatus, VmState
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MarkResized(Step):
    title = "Await confirmation"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        chosen = move_rows.chosen(work)
        instance_rows.update(
            work,
            host=chosen.host,
            node=chosen.node,
            availability_zone=chosen.availability_zone,
            flavor=migration.new_flavor,
            previous_vm_state=instance.vm_state,
            vm_state=VmState.RESIZED,
            power_state=move_rows.power_after(migration),
            task_state=None,
        )
        move_rows.update(work, status=MigrationStatus.FINISHED)
