"""The server is no more: its volumes are free again, or go with it where that was asked for."""

from __future__ import annotations

from conductor.cell_db.models import BlockDevice
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class ReleaseVolumes(Step):
    title = "Release volumes"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: Work) -> Result:
        for device in BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid):
            let_go = operations.release_for_ever if device.delete_on_termination else operations.release
            with work.fenced("default"):
                let_go(str(device.uuid))
            operations.settle(device.volume_uuid)  # nothing to do for one that stays
        return {}

    def apply(self, work: Work, result: Result) -> None:
        BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
