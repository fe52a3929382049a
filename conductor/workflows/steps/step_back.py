"""The instance holds again what it held at its source, and its old share of the quota."""

from __future__ import annotations

from conductor.scheduler import moving, quota_shares
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class StepBack(Step):
    title = "Claim the source again"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        flavor = move_rows.old_flavor(migration)
        with work.fenced("default"):
            moving.step_back(
                instance.uuid,
                migration.uuid,
                held=migration.details.get("held", {}),
                owner=(instance.project_id, instance.user_id),
            )
            quota_shares.take(work.instance_uuid, flavor.vcpus, flavor.memory_mb)
        return {}
