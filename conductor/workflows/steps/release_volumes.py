"""The server is no more: its volumes are free again, or go with it where that was asked for."""

from __future__ import annotations

from conductor.cell_db.models import BlockDevice
from conductor.journal.models import OutboxMessage
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class ReleaseVolumes(Step):
    """A silent host may still have the guest write to them: then they stay `detaching` until it has let the guest go,
    and the storage upkeep does the rest."""

    title = "Release volumes"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: Work) -> Result:
        owed = OutboxMessage.objects.using(work.alias).filter(run_uuid=work.run.uuid, is_owed=True).first()
        for device in BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid):
            with work.fenced("default"):
                if owed is not None:
                    operations.keep_detaching(str(device.uuid))
                else:
                    operations.let_go(str(device.uuid), is_deleted=device.delete_on_termination)
            operations.settle(device.volume_uuid)  # nothing to do for one that stays
        return {"kept_for": owed.host} if owed is not None else {}

    def apply(self, work: Work, result: Result) -> None:
        if "kept_for" not in result:
            BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
