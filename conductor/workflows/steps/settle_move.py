"""What the instance held at its source is free: it stays where it is now."""

from __future__ import annotations

from conductor.scheduler import moving, quota_shares
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import move_rows


class SettleMove(Step):
    title = "Free the source"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        migration = move_rows.read(work)
        flavor = move_rows.new_flavor(migration)
        with work.fenced("default"):
            moving.settle(work.instance_uuid, migration.uuid)
            quota_shares.take(work.instance_uuid, flavor.vcpus, flavor.memory_mb)
        return {}
