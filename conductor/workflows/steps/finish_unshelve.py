"""The server runs again: its kept image goes, and it stays bound to the zone that was asked for."""

from __future__ import annotations

from conductor.api_db.models import RequestSpecRecord
from conductor.core.states import VmState
from conductor.transactions import database_now
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.reserve_image import discard


class FinishUnshelve(Step):
    """No revert, and no cancel from here on: there is no way back once the image is gone."""

    title = "Activate"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        instance = instance_rows.read(work)
        if instance.shelved_image_id:
            discard(work, instance.shelved_image_id)
        zone = work.inputs.get("availability_zone")
        if zone is not None:
            with work.fenced("default"):
                record = RequestSpecRecord.objects.select_for_update().get(instance_uuid=work.instance_uuid)
                record.spec = {**record.spec, "availability_zone": zone}
                record.save(update_fields=["spec"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        zone = work.inputs.get("availability_zone")
        instance_rows.update(
            work,
            vm_state=VmState.ACTIVE,
            task_state=None,
            previous_vm_state="",
            shelved_image_id="",
            shelved_at=None,
            launched_at=database_now(),
            **({} if zone is None else {"pinned_availability_zone": zone}),
        )
