"""A size that grows needs its share of the quota at once, and keeps the larger one until it is settled."""

from __future__ import annotations

from conductor.scheduler import quota_shares
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import move_rows


class ReserveQuota(Step):
    """The request was checked before it was accepted; what was asked for at the same moment is found out here."""

    title = "Reserve quota"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        migration = move_rows.read(work)
        old, new = move_rows.old_flavor(migration), move_rows.new_flavor(migration)
        with work.fenced("default"):
            quota_shares.grow(work.instance_uuid, old=old, new=new, limits=work.inputs.get("limits", {}))
        return {}

    def revert(self, work: Work, result: Result) -> None:
        old = move_rows.old_flavor(move_rows.read(work))
        with work.fenced("default"):
            quota_shares.take(work.instance_uuid, old.vcpus, old.memory_mb)
