"""The server is no more: its volumes are free again, or go with it where that was asked for."""

from __future__ import annotations

from conductor.cell_db.models import BlockDevice
from conductor.rpc import outbox
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class ReleaseVolumes(Step):
    """A silent host may still have the guest write to them: then they stay `detaching` until it has let the guest go,
    and the storage upkeep does the rest."""

    title = "Release volumes"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: Work) -> Result:
        devices = list(BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid))
        awaited = outbox.owed_about(work.alias, work.instance_uuid).first() if devices else None
        for device in devices:
            with work.fenced("default"):
                if awaited is not None:
                    operations.keep_detaching(str(device.uuid))
                else:
                    operations.let_go(str(device.uuid), is_deleted=device.delete_on_termination)
            operations.settle(device.volume_uuid)  # nothing to do for one that stays
        return {"kept_for": awaited.host} if awaited is not None else {"released": len(devices)}

    def apply(self, work: Work, result: Result) -> None:
        if result.get("released"):
            BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
