"""A server that is tried again leaves the cell where it failed: its request is all there is of it by now."""

from __future__ import annotations

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import ConsoleLog, Instance, InstanceFault
from conductor.journal.models import WorkflowRun
from conductor.rpc.deletes import UNFINISHED
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class LeaveOldCell(Step):
    """No revert: should the build fail again, the request becomes a row of cell0 again.

    Here a delete meets the second try: one that has found the row before it was gone has won, and the request is
    dropped; one that comes later finds the request.
    """

    title = "Leave the old cell"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        cell, uuid = work.inputs["from_cell"], work.instance_uuid
        with work.fenced(cell):
            rows = Instance.objects.using(cell).filter(uuid=uuid)
            row = rows.select_for_update().first()
            runs = WorkflowRun.objects.using(cell).filter(instance_uuid=uuid, state__in=UNFINISHED)
            is_deleted = row is not None and (row.deleted_at is not None or runs.exists())
            if row is not None and not is_deleted:
                for model in (InstanceFault, ConsoleLog):
                    model.objects.using(cell).filter(instance_uuid=uuid).delete()
                rows.delete()
        if is_deleted:
            with work.fenced(work.alias):
                BuildRequest.objects.filter(run_uuid=work.run.uuid).update(is_deleting=True)
        return {"is_deleted": is_deleted}
