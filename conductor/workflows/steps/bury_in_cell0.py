"""Keep what never got a host in cell0, in error, so that its owner can read why."""

from __future__ import annotations

from conductor import events
from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import CELL0
from conductor.core.states import VmState
from conductor.transactions import database_now
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps.create_in_cells import forget, give_volumes_back


class BuryInCell0(Step):
    title = "Keep as failed"
    event = "conductor_schedule_and_build_instances"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        rows = list(BuildRequest.objects.filter(run_uuid=work.run.uuid))
        with work.fenced(CELL0):
            _create_failed(work, [row for row in rows if not row.is_deleting])
        cell0 = CellMapping.objects.get(name=CELL0)
        with work.fenced("default"):
            for row in BuildRequest.objects.filter(run_uuid=work.run.uuid):
                if row.is_deleting:
                    forget(work, str(row.instance_uuid))
                else:
                    give_volumes_back(work, str(row.instance_uuid))
                    InstanceMapping.objects.filter(instance_uuid=row.instance_uuid).update(cell=cell0)
            BuildRequest.objects.filter(run_uuid=work.run.uuid).delete()
        _remove_deleted(work)
        return {"buried": [str(row.instance_uuid) for row in rows]}


def _create_failed(work: Work, rows: list[BuildRequest]) -> None:
    error = work.run.error or {}
    there = set(
        Instance.objects.using(CELL0).filter(uuid__in=[r.instance_uuid for r in rows]).values_list("uuid", flat=True)
    )
    for row in rows:
        if row.instance_uuid in there:
            continue
        values = {**row.instance, "vm_state": VmState.ERROR, "task_state": None}
        Instance.objects.using(CELL0).create(
            uuid=row.instance_uuid, **values, created_at=row.created_at, updated_at=database_now()
        )
        InstanceFault.objects.using(CELL0).create(
            instance_uuid=row.instance_uuid,
            message=str(error.get("message", ""))[:255],
            decision_uuid=error.get("details", {}).get("decision_uuid"),
            created_at=database_now(),
        )
        events.append(
            CELL0, events.about_instance(row.instance_uuid, work.run.project_id, work.run.uuid), "instance.updated"
        )


def _remove_deleted(work: Work) -> None:
    """A delete that came between the two transactions above has won."""
    gone = InstanceMapping.objects.filter(build_run_uuid=work.run.uuid, is_deleted=True, cell__isnull=True).values_list(
        "instance_uuid", flat=True
    )
    with work.fenced(CELL0):
        Instance.objects.using(CELL0).filter(uuid__in=list(gone)).delete()
