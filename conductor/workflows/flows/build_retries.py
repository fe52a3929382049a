"""Flow that retries a failed build: it removes the server from its old cell, then builds it like a new one."""

from __future__ import annotations

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import ConsoleLog, Instance, InstanceFault
from conductor.journal.models import WorkflowRun
from conductor.rpc.deletes import UNFINISHED
from conductor.workflows.flow import UNTIL_DONE, Flow, Result, Step, StepContext
from conductor.workflows.flows.build import CreateInCells, HandOver, SelectDestinations
from conductor.workflows.steps.build_requests import BuryInCell0


class LeaveOldCell(Step):
    """Removes the row of the failed server from its cell, or drops the request if a delete came first.

    Deletes are serialized with the retry here: a delete that found the row wins, and the request is dropped; a later
    one finds the request.

    No revert: if the build fails again, the request becomes a row of cell0 again.
    """

    title = "Remove from old cell"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
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


TRY_AGAIN = Flow(
    "try_again",
    version=1,
    steps=(
        LeaveOldCell(),  # deletes the row: mapping and request now represent the server
        SelectDestinations(),  # a new pass over all hosts; revert releases the claim
        CreateInCells(),  # a row in the chosen cell; the mapping gets it, the request is deleted
        HandOver(),  # a workflow in the cell
    ),
    on_failure=BuryInCell0(),  # in cell0 again, with the new decision as its fault
    cancellable_until=None,  # a delete of the server ends it
)
