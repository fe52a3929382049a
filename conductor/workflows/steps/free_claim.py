"""Give back what the server holds of its host; its share of the quota stays."""

from __future__ import annotations

from conductor.scheduler import allocation_claims
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class FreeClaim(Step):
    title = "Free claim"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            allocation_claims.release(work.instance_uuid)
        return {}
