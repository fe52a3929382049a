"""Ends of build requests whose servers get no host: dropped, or kept in cell0 in error."""

from __future__ import annotations

from conductor import events
from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import CELL0
from conductor.core.messages import text_of, to_json_text
from conductor.core.states import VmState
from conductor.db.transactions import database_now
from conductor.scheduler import claims
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, StepContext


def forget(work: StepContext, instance_uuid: str) -> None:
    """Release all of a request that was deleted before it had a cell; inside a fenced API transaction."""
    claims.release(instance_uuid)
    give_volumes_back(work, instance_uuid)
    InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(is_deleted=True)
    events.append(
        "default", events.about_instance(instance_uuid, work.run.project_id, work.run.uuid), "instance.deleted"
    )


def give_volumes_back(work: StepContext, instance_uuid: str) -> None:
    """Release an instance's volumes, or delete those that the launch created; in a write transaction.

    The storage cleanup removes the data of deleted ones.
    """
    for device in work.inputs.get("devices", {}).get(instance_uuid, ()):
        operations.let_go(device["attachment_id"], is_deleted=device["is_made"])


class BuryInCell0(Step):
    """Stores the servers in `cell0` in error, with the request's error as their fault."""

    title = "Record as failed"
    event = "conductor_schedule_and_build_instances"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
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
        return {"instances": [str(row.instance_uuid) for row in rows]}


def _create_failed(work: StepContext, rows: list[BuildRequest]) -> None:
    error = work.run.error or {}
    text = text_of(error)
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
            message=text[:255],
            wording=to_json_text(text),
            decision_uuid=error.get("details", {}).get("decision_uuid"),
            created_at=database_now(),
        )
        events.append(
            CELL0, events.about_instance(row.instance_uuid, work.run.project_id, work.run.uuid), "instance.updated"
        )


def _remove_deleted(work: StepContext) -> None:
    """Remove instances whose delete came between the two transactions above."""
    gone = InstanceMapping.objects.filter(build_run_uuid=work.run.uuid, is_deleted=True, cell__isnull=True).values_list(
        "instance_uuid", flat=True
    )
    with work.fenced(CELL0):
        Instance.objects.using(CELL0).filter(uuid__in=list(gone)).delete()
