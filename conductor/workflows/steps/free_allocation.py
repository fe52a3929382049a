"""Give back what the instance holds: its allocation, its place in a group, its share of the quota."""

from __future__ import annotations

from conductor.api_db.models import InstanceMapping
from conductor.scheduler import allocation_claims
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class FreeAllocation(Step):
    title = "Free allocation"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            allocation_claims.release(work.instance_uuid)
            InstanceMapping.objects.filter(instance_uuid=work.instance_uuid).update(is_deleted=True)
        return {}
