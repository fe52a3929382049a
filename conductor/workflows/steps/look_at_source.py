"""Before anything moves: the instance is still where the move begins, and what it holds there is noted."""

from __future__ import annotations

from conductor.core.errors import InstanceMoved
from conductor.placement import allocations
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class LookAtSource(Step):
    """What was under way when the move was asked for has ended by now, and may have left another truth.

    No undo: it only looks.
    """

    title = "Look at source"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        return {"held": allocations.held_by(work.instance_uuid)}

    def apply(self, work: Work, result: Result) -> None:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        if instance.host != migration.source_host:
            raise InstanceMoved(f"The instance is on {instance.host} by now, not on {migration.source_host}.")
        kept = {"held": result["held"], "availability_zone": instance.availability_zone}
        move_rows.update(work, details={**migration.details, **kept}, old_flavor=instance.flavor)
